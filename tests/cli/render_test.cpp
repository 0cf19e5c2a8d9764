#include "cli/render.hpp"

#include <gtest/gtest.h>

namespace kolo::cli {
namespace {

Packet packet(int rank, const std::string& text, LineEnd end) {
  return {rank, PacketKind::kOutput, end, text};
}

TEST(Renderer, PutsTheRankInFront) {
  Renderer renderer({true, {}});
  EXPECT_EQ(renderer.add(packet(3, "hi", LineEnd::kNewline)).text, "[3] hi\n");
  EXPECT_EQ(renderer.add(packet(3, "50%", LineEnd::kReturn)).text, "[3] 50%\r");
  EXPECT_EQ(renderer.add(packet(3, "", LineEnd::kBareNewline)).text, "\n");
  EXPECT_EQ(renderer.add(packet(3, "end", LineEnd::kEndOfStream)).text, "[3] end\n");
}

TEST(Renderer, LeavesBytesAsTheyWereWithoutPrefix) {
  Renderer renderer({false, {}});
  EXPECT_EQ(renderer.add(packet(3, "hi", LineEnd::kNewline)).text, "hi\n");
  EXPECT_EQ(renderer.add(packet(3, "end", LineEnd::kEndOfStream)).text, "end");
}

TEST(Renderer, PutsTheTimeInFront) {
  Renderer renderer({true, [] { return std::string("NOW "); }});
  EXPECT_EQ(renderer.add(packet(3, "hi", LineEnd::kNewline)).text, "[3] NOW hi\n");
}

TEST(Renderer, JoinsThePiecesOfEachRankAndStream) {
  Renderer renderer({true, {}});
  EXPECT_EQ(renderer.add(packet(0, "a", LineEnd::kContinues)).text, "");
  EXPECT_EQ(renderer.add(packet(1, "x", LineEnd::kNewline)).text, "[1] x\n");
  EXPECT_EQ(renderer.add({0, PacketKind::kError, LineEnd::kNewline, "oops"}).text, "[0] oops\n");
  EXPECT_EQ(renderer.add(packet(0, "b", LineEnd::kContinues)).text, "");
  EXPECT_EQ(renderer.add(packet(0, "c", LineEnd::kNewline)).text, "[0] abc\n");
  EXPECT_TRUE(renderer.finish().empty());
}

TEST(Renderer, TellsTheStream) {
  Renderer renderer({true, {}});
  EXPECT_FALSE(renderer.add(packet(0, "a", LineEnd::kNewline)).is_error);
  EXPECT_TRUE(renderer.add({0, PacketKind::kError, LineEnd::kNewline, "a"}).is_error);
}

TEST(Renderer, ShowsUnfinishedLinesInTheEnd) {
  Renderer renderer({true, {}});
  (void)renderer.add(packet(0, "cut", LineEnd::kContinues));
  const std::vector<Rendered> rest = renderer.finish();
  ASSERT_EQ(rest.size(), 1U);
  EXPECT_EQ(rest[0].text, "[0] cut\n");
}

TEST(Timestamp, HasMilliseconds) {
  EXPECT_EQ(current_timestamp().size(), 24U);
}

}  // namespace
}  // namespace kolo::cli
