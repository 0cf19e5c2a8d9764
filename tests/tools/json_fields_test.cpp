#include "tools/json_fields.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "kolo/error.h"

namespace kolo::tools {
namespace {

TEST(JsonFields, TakeWhatCanBeReckonedWith) {
  using nlohmann::json;
  const json object = json::parse(R"({"one": 1, "half": 0.5, "text": "1", "nothing": null,
      "edge": 2305843009213693952, "large": 2305843009213693953, "low": -2305843009213693953,
      "unsigned": 18446744073709551615, "wide": 4294967296})");
  EXPECT_EQ(integer_at(object, "one"), 1);
  EXPECT_EQ(integer_at(object, "edge"), std::int64_t{1} << 61);
  EXPECT_EQ(integer_or(object, "none", 7), 7);
  EXPECT_EQ(int_or(object, "none", 7), 7);
  EXPECT_EQ(int_at(object, "one"), 1);
  EXPECT_EQ(number_at(object, "half"), 0.5);
  for (const char* key : {"none", "half", "text", "nothing", "large", "low", "unsigned"})
    EXPECT_THROW(integer_at(object, key), DataError) << key;
  EXPECT_THROW(int_at(object, "wide"), DataError);
  EXPECT_THROW(number_at(object, "text"), DataError);
  EXPECT_THROW(integer_at(json(3), "one"), DataError);
}

// The parser by itself takes a NUL for the end, and skips a byte order mark.
TEST(JsonFields, AllOfATextIsRead) {
  using namespace std::string_literals;
  EXPECT_EQ(parse_json(" {\"a\": 1}\n")["a"], 1);
  for (const std::string& text : {"1\0"s, "1\0 hello"s, "\0"s,
                                  "\xef\xbb\xbf"
                                  "1"s})
    EXPECT_THROW(parse_json(text), DataError) << text;
  EXPECT_THROW(parse_json("1 2"), nlohmann::json::exception);
}

}  // namespace
}  // namespace kolo::tools
