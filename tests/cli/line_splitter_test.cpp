#include "cli/process/line_splitter.hpp"

#include <gtest/gtest.h>

namespace kolo::cli {
namespace {

// "text|n" for each piece.
std::string split(const std::vector<std::string>& chunks, std::size_t piece_bytes = 100) {
  LineSplitter splitter(piece_bytes);
  std::string all;
  const auto sink = [&](std::string_view text, LineEnd end) {
    all += std::string(text) + "|" + static_cast<char>(end) + " ";
  };
  for (const std::string& chunk : chunks) splitter.feed(chunk, sink);
  splitter.finish(sink);
  return all;
}

TEST(LineSplitter, SplitsAtNewlines) {
  EXPECT_EQ(split({"a\nbc\n\nd\n"}), "a|n bc|n |n d|n ");
}

TEST(LineSplitter, JoinsChunks) {
  EXPECT_EQ(split({"a", "b", "c\nd", "\n"}), "abc|n d|n ");
}

TEST(LineSplitter, FlushesAnUnfinishedLineAtTheEnd) {
  EXPECT_EQ(split({"a\nb"}), "a|n b|f ");
}

TEST(LineSplitter, HasNothingToFlushAfterANewline) {
  EXPECT_EQ(split({"a\n"}), "a|n ");
}

TEST(LineSplitter, TakesACarriageReturnAsAnEnd) {
  EXPECT_EQ(split({"10%\r20%\rdone\n"}), "10%|r 20%|r done|n ");
}

TEST(LineSplitter, TakesReturnAndNewlineAsOneEnd) {
  EXPECT_EQ(split({"a\r\nb\r\n"}), "a|r |b b|r |b ");
  EXPECT_EQ(split({"a\r", "\n", "b\n"}), "a|r |b b|n ");
}

TEST(LineSplitter, SeesANewlineAfterTextThatFollowedAReturn) {
  EXPECT_EQ(split({"a\rb\n\n"}), "a|r b|n |n ");
}

TEST(LineSplitter, HandsOutLongLinesInPieces) {
  EXPECT_EQ(split({"abcdefgh\nx\n"}, 3), "abc|- def|- gh|n x|n ");
  EXPECT_EQ(split({"abc\n"}, 3), "abc|n ");
  EXPECT_EQ(split({"abcd"}, 3), "abc|- d|f ");
}

TEST(LineSplitter, KeepsZeroBytes) {
  EXPECT_EQ(split({std::string("a\0b\n", 4)}), std::string("a\0b|n ", 6));
}

}  // namespace
}  // namespace kolo::cli
