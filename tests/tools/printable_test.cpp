#include "tools/printable.hpp"

#include <gtest/gtest.h>

namespace kolo::tools {
namespace {

TEST(Printable, ControlCharactersAreEscaped) {
  EXPECT_EQ(printable("layer1.weight"), "layer1.weight");
  EXPECT_EQ(printable("\303\274 \xe2\x82\xac"), "\303\274 \xe2\x82\xac");
  EXPECT_EQ(printable("a\033[2Jb\nc\x7f"), "a\\x1b[2Jb\\x0ac\\x7f");
  EXPECT_EQ(printable(std::string("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("a\nb\tc\r", "\n\t"), "a\nb\tc\\x0d");
}

// U+009B begins a command to a terminal, as ESC [ does; U+00A0 is a blank.
TEST(Printable, ControlCharactersOfTwoBytesAreEscaped) {
  EXPECT_EQ(printable("a\xc2\x9b"
                      "2J\xc2\xa0"),
            "a\\x9b"
            "2J\xc2\xa0");
}

}  // namespace
}  // namespace kolo::tools
