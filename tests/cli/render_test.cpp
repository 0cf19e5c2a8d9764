#include "cli/run/render.hpp"

#include <gtest/gtest.h>

namespace kolo::cli {
namespace {

Packet packet(int rank, const std::string& text, LineEnd end) {
  return {rank, PacketKind::kOutput, end, text};
}

std::string rank_tag(int rank, bool) {
  return "[" + std::to_string(rank) + "] ";
}

TEST(Renderer, PutsTheTagInFront) {
  Renderer renderer({rank_tag, {}});
  EXPECT_EQ(renderer.add(packet(3, "hi", LineEnd::kNewline)).text, "[3] hi\n");
  EXPECT_EQ(renderer.add(packet(3, "50%", LineEnd::kReturn)).text, "[3] 50%\r");
  EXPECT_EQ(renderer.add(packet(3, "\033[K", LineEnd::kReturn)).text, "\033[K\r");
  EXPECT_EQ(renderer.add(packet(3, "", LineEnd::kBareNewline)).text, "\n");
  EXPECT_EQ(renderer.add(packet(3, "end", LineEnd::kEndOfStream)).text, "[3] end\n");
}

TEST(Renderer, LeavesBytesAsTheyWereWithoutPrefix) {
  Renderer renderer({});
  EXPECT_EQ(renderer.add(packet(3, "hi", LineEnd::kNewline)).text, "hi\n");
  EXPECT_EQ(renderer.add(packet(3, "end", LineEnd::kEndOfStream)).text, "end");
}

TEST(Renderer, PutsTheTimeInFront) {
  Renderer renderer({rank_tag, [] { return std::string("NOW "); }});
  EXPECT_EQ(renderer.add(packet(3, "hi", LineEnd::kNewline)).text, "[3] NOW hi\n");
}

TEST(Renderer, JoinsThePiecesOfEachRankAndStream) {
  Renderer renderer({rank_tag, {}});
  EXPECT_EQ(renderer.add(packet(0, "a", LineEnd::kContinues)).text, "");
  EXPECT_EQ(renderer.add(packet(1, "x", LineEnd::kNewline)).text, "[1] x\n");
  EXPECT_EQ(renderer.add({0, PacketKind::kError, LineEnd::kNewline, "oops"}).text, "[0] oops\n");
  EXPECT_EQ(renderer.add(packet(0, "b", LineEnd::kContinues)).text, "");
  EXPECT_EQ(renderer.add(packet(0, "c", LineEnd::kNewline)).text, "[0] abc\n");
  EXPECT_TRUE(renderer.finish().empty());
}

TEST(Renderer, TellsTheStream) {
  Renderer renderer({rank_tag, {}});
  EXPECT_FALSE(renderer.add(packet(0, "a", LineEnd::kNewline)).is_error);
  EXPECT_TRUE(renderer.add({0, PacketKind::kError, LineEnd::kNewline, "a"}).is_error);
  Renderer tells({[](int, bool is_error) { return is_error ? "err " : "out "; }, {}});
  EXPECT_EQ(tells.add(packet(0, "a", LineEnd::kNewline)).text, "out a\n");
  EXPECT_EQ(tells.add({0, PacketKind::kError, LineEnd::kNewline, "a"}).text, "err a\n");
}

TEST(Renderer, ShowsUnfinishedLinesInTheEnd) {
  Renderer renderer({rank_tag, {}});
  (void)renderer.add(packet(0, "cut", LineEnd::kContinues));
  const std::vector<Rendered> rest = renderer.finish();
  ASSERT_EQ(rest.size(), 1U);
  EXPECT_EQ(rest[0].text, "[0] cut\n");
  EXPECT_EQ(rest[0].rank, 0);
}

TEST(Timestamp, HasMilliseconds) {
  EXPECT_EQ(current_timestamp().size(), 24U);
}

}  // namespace
}  // namespace kolo::cli
