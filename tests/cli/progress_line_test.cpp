#include "cli/run/progress_line.hpp"

#include <gtest/gtest.h>

namespace kolo::cli {
namespace {

TEST(ProgressLine, IsCutToTheTerminal) {
  ProgressLine line;
  EXPECT_EQ(line.place("[0] epoch 1/9, step 3\033[K\r", 80), "[0] epoch 1/9, step 3\033[K\r");
  EXPECT_EQ(line.place("[0] epoch 1/9, step 3\033[K\r", 11), "[0] epoch \033[K\r");
  EXPECT_EQ(line.place("[0] \303\274\303\274\303\274\033[K\r", 7), "[0] \303\274\303\274\033[K\r");
  EXPECT_EQ(line.place("[0] epoch 1/9, step 3\033[K\r", 0), "[0] epoch 1/9, step 3\033[K\r");
  EXPECT_EQ(line.place("[1] another line that is long\n", 11),
            "\033[K[1] another line that is long\n");
}

TEST(ProgressLine, OtherTextErasesIt) {
  ProgressLine line;
  EXPECT_EQ(line.place("[1] hello\n", 80), "[1] hello\n");
  line.place("[0] epoch 1\033[K\r", 80);
  EXPECT_EQ(line.place("", 80), "");
  EXPECT_EQ(line.place("[1] hello\n", 80), "\033[K[1] hello\n");
  EXPECT_EQ(line.place("[1] hello\n", 80), "[1] hello\n");
}

// Of a rank that was killed, too.
TEST(ProgressLine, IsErasedAtTheEnd) {
  ProgressLine line;
  EXPECT_EQ(line.clear(), "");
  line.place("[0] epoch 1\033[K\r", 80);
  EXPECT_EQ(line.clear(), "\033[K");
  EXPECT_EQ(line.clear(), "");
  line.place("[0] epoch 1\033[K\r", 80);
  EXPECT_EQ(line.place("\033[K\r", 80), "\033[K\r");
  EXPECT_EQ(line.clear(), "");
}

// Another program's line that returns is left as it is.
TEST(ProgressLine, OtherLinesThatReturnAreNone) {
  ProgressLine line;
  EXPECT_EQ(line.place("[0]  50 % of a download\r", 5), "[0]  50 % of a download\r");
  EXPECT_EQ(line.clear(), "");
}

}  // namespace
}  // namespace kolo::cli
