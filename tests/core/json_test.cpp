#include "core/json.hpp"

#include <gtest/gtest.h>

namespace kolo {
namespace {

TEST(JsonString, EscapesWhatMustBe) {
  EXPECT_EQ(json_string("plain/text"), "\"plain/text\"");
  EXPECT_EQ(json_string("a\"b\\c\nd\te\rf"), R"("a\"b\\c\nd\te\rf")");
  EXPECT_EQ(json_string(std::string("\x01\x1f\x00z", 4)), R"("\u0001\u001f\u0000z")");
  EXPECT_EQ(json_string(""), "\"\"");
}

TEST(JsonString, KeepsUtf8AndReplacesWhatIsNot) {
  EXPECT_EQ(json_string("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"),
            "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
  EXPECT_EQ(json_string("a\xff"
                        "b"),
            R"("a\ufffdb")");
  EXPECT_EQ(json_string("cut \xe2\x82"), R"("cut \ufffd\ufffd")");
}

TEST(Utf8, RefusesOverlongSurrogatesAndTooLarge) {
  EXPECT_EQ(utf8_length("\xc0\x80", 0), 0U);
  EXPECT_EQ(utf8_length("\xe0\x80\x80", 0), 0U);
  EXPECT_EQ(utf8_length("\xed\xa0\x80", 0), 0U);
  EXPECT_EQ(utf8_length("\xf4\x90\x80\x80", 0), 0U);
  EXPECT_EQ(utf8_length("\xf4\x8f\xbf\xbf", 0), 4U);
  EXPECT_EQ(utf8_length("\xe2\x82"
                        "x",
                        0),
            0U);
}

}  // namespace
}  // namespace kolo
