#include "cli/rank/packet.hpp"

#include <gtest/gtest.h>

#include <cerrno>

namespace kolo::cli {
namespace {

Decoded round_trip(const Packet& packet) {
  std::string line = encode(packet);
  EXPECT_EQ(line.back(), '\n');
  line.pop_back();
  return decode(line);
}

TEST(Packet, ComesBackAsItWas) {
  for (const LineEnd end : {LineEnd::kNewline, LineEnd::kReturn, LineEnd::kBareNewline,
                            LineEnd::kContinues, LineEnd::kEndOfStream}) {
    const Decoded back = round_trip({12, PacketKind::kError, end, std::string("a \0 b", 5)});
    ASSERT_TRUE(back.packet);
    EXPECT_EQ(back.before, "");
    EXPECT_EQ(back.packet->rank, 12);
    EXPECT_EQ(back.packet->kind, PacketKind::kError);
    EXPECT_EQ(back.packet->end, end);
    EXPECT_EQ(back.packet->payload, std::string("a \0 b", 5));
  }
}

TEST(Packet, OfTheLongestPieceFitsIntoOneWrite) {
  const Packet packet{99'999'999, PacketKind::kOutput, LineEnd::kContinues,
                      std::string(kPayloadBytes, 'x')};
  EXPECT_LE(encode(packet).size(), kPacketBytes);
}

TEST(Packet, IsFoundBehindTextOfTheLauncher) {
  std::string line = encode({1, PacketKind::kOutput, LineEnd::kNewline, "hi"});
  line.pop_back();
  const Decoded decoded = decode("warning: " + line);
  ASSERT_TRUE(decoded.packet);
  EXPECT_EQ(decoded.before, "warning: ");
  EXPECT_EQ(decoded.packet->payload, "hi");
}

TEST(Packet, MayCarryAPacketAsText) {
  std::string inner = encode({5, PacketKind::kOutput, LineEnd::kNewline, "hi"});
  inner.pop_back();
  const Decoded outer = round_trip({1, PacketKind::kOutput, LineEnd::kNewline, inner});
  ASSERT_TRUE(outer.packet);
  EXPECT_EQ(outer.packet->rank, 1);
  EXPECT_EQ(outer.packet->payload, inner);
}

TEST(Packet, ThatIsTruncatedOrForeignIsText) {
  std::string line = encode({1, PacketKind::kOutput, LineEnd::kNewline, ""});
  line.pop_back();
  ASSERT_TRUE(decode(line).packet);
  for (std::size_t size = 0; size < line.size(); ++size) {
    EXPECT_FALSE(decode(line.substr(0, size)).packet) << size;
    EXPECT_EQ(decode(line.substr(0, size)).before, line.substr(0, size));
  }
  for (const char* bad :
       {"\x1ekolo -1 on x", "\x1ekolo 1 qn x", "\x1ekolo 1 oz x", "\x1ekolo x on y",
        "\x1ekolo 1 onx", "\x1ekolo 99999999999999999999 on x"}) {
    EXPECT_FALSE(decode(bad).packet) << bad;
  }
}

TEST(EndedPayload, ComesBackAsItWas) {
  const Ended ended{{"node7", 123, 456, {}}, true, true, Ending::kSignal, 9, "my program"};
  const std::optional<Ended> back = decode_ended(encode(ended));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->from.host, "node7");
  EXPECT_EQ(back->from.pid, 123);
  EXPECT_EQ(back->from.microseconds, 456);
  EXPECT_TRUE(back->was_told);
  EXPECT_TRUE(back->lost_peer);
  EXPECT_EQ(back->how, Ending::kSignal);
  EXPECT_EQ(back->code, 9);
  EXPECT_EQ(back->program, "my program");
}

TEST(EndedPayload, RefusesWhatIsDamaged) {
  for (const char* bad :
       {"", "node7", "node7 1 2", "node7 1 2 0", "node7 1 2 0 0", "node7 1 2 0 0 exit",
        "node7 1 2 0 0 exit x p", "node7 1 2 0 0 vanish 3 p", "node7 1 2 7 0 exit 3 p",
        "node7 1 2 0 7 exit 3 p"}) {
    EXPECT_FALSE(decode_ended(bad)) << bad;
  }
  EXPECT_FALSE(decode_started("node7 x 1"));
  EXPECT_FALSE(decode_started("node7 5 1"));
  EXPECT_TRUE(decode_started("node7 5 1 -"));
}

}  // namespace
}  // namespace kolo::cli
