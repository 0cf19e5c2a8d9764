#include "core/terminal.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdint>

namespace kolo {
namespace {

TEST(Terminal, WidthOfWhatIsNone) {
  const int file = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(terminal_columns(file), 0U);
  ::close(file);
  EXPECT_EQ(terminal_columns(-1), 0U);
}

TEST(Terminal, WidthFollowsTheTerminal) {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (terminal < 0) GTEST_SKIP() << "this system gives no pseudo-terminals";
  for (const std::uint16_t columns : {std::uint16_t{132}, std::uint16_t{40}}) {
    const winsize size{24, columns, 0, 0};
    ASSERT_EQ(::ioctl(terminal, TIOCSWINSZ, &size), 0);
    EXPECT_EQ(terminal_columns(terminal), columns);
  }
  ::close(terminal);
}

TEST(Terminal, LinesAreCutBetweenCharacters) {
  EXPECT_EQ(first_columns("hello", 5), "hello");
  EXPECT_EQ(first_columns("hello", 4), "hell");
  EXPECT_EQ(first_columns("hello", 0), "");
  EXPECT_EQ(first_columns("a\xe2\x82\xac"
                          "b",
                          2),
            "a\xe2\x82\xac");
  EXPECT_EQ(first_columns("a\xe2\x82\xac"
                          "b",
                          1),
            "a");
}

}  // namespace
}  // namespace kolo
