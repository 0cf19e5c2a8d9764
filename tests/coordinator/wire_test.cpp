#include "coordinator/wire.hpp"

#include <gtest/gtest.h>

#include <random>

namespace kolo::wire {
namespace {

Descriptor a_descriptor() {
  Descriptor d;
  d.kind = OpKind::kBroadcast;
  d.tensors = {{DType::kBfloat16, {3, 0, std::int64_t{1} << 40}, "w"}, {DType::kInt8, {}, ""}};
  d.op = ReduceOp::Max;
  d.root = 4095;
  d.destination = 7;
  d.prescale = 0.25;
  d.postscale = -1e300;
  d.device = DeviceKind::kCuda;
  return d;
}

Report a_report() {
  return {Announce{"layer1.weight \xc3\xa9", a_descriptor(), true, false},
          Ready{300, {}},
          Ready{1ULL << 63, {0, 127, 128, 0xffffffffU}},
          Flush{7},
          Boundary{},
          Boundary{{{1, 0}, {300, 1ULL << 40}}, {7, 1ULL << 63}},
          Leave{},
          Join{},
          Measures{{0, 1ULL << 63, 7}},
          Abort{"lost"}};
}

Decisions some_decisions() {
  return {Assign{1, "", a_descriptor(), true},
          Bucket{9, {{1, 2}, {300, 1ULL << 40}}},
          Execute{9, {1}},
          Execute{1, {}},
          Fail{kUnnamed, "x", StatusCode::kMismatch, "they differ"},
          Dissolve{9},
          Evict{1},
          Bye{},
          Joined{3, ""},
          Joined{0, "one has left"},
          Stalled{"rank 2 does not come"},
          Abort{"lost"}};
}

TEST(Wire, WhatIsEncodedIsDecoded) {
  Report report;
  ASSERT_TRUE(decode(encode(a_report()), report).is_ok());
  EXPECT_EQ(report, a_report());
  Decisions decisions;
  ASSERT_TRUE(decode(encode(some_decisions()), decisions).is_ok());
  EXPECT_EQ(decisions, some_decisions());
}

TEST(Wire, TheEmptyMessage) {
  Report report = a_report();
  ASSERT_TRUE(decode({}, report).is_ok());
  EXPECT_TRUE(report.empty());
}

// A message that was cut is an error or, cut between records, a shorter message. Never a crash,
// never other records.
template <typename Message>
void check_truncations(const Message& message) {
  const std::vector<std::byte> bytes = encode(message);
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    Message decoded;
    const std::vector<std::byte> cut(bytes.begin(),
                                     bytes.begin() + static_cast<std::ptrdiff_t>(length));
    if (!decode(cut, decoded).is_ok()) {
      EXPECT_TRUE(decoded.empty());
      continue;
    }
    ASSERT_LT(decoded.size(), message.size());
    for (std::size_t i = 0; i < decoded.size(); ++i) EXPECT_EQ(decoded[i], message[i]);
  }
}

TEST(Wire, Truncated) {
  check_truncations(a_report());
  check_truncations(some_decisions());
}

// Whatever the bytes, decoding ends; and what it accepts can be encoded and decoded again.
template <typename Message>
void check_random_changes(const Message& message, unsigned seed) {
  std::mt19937 random(seed);
  const std::vector<std::byte> good = encode(message);
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::byte> bytes = good;
    for (unsigned change = 0; change < 1 + random() % 4; ++change) {
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    }
    Message decoded;
    if (!decode(bytes, decoded).is_ok()) continue;
    ++accepted;
    Message again;
    ASSERT_TRUE(decode(encode(decoded), again).is_ok());
    EXPECT_EQ(encode(again), encode(decoded));
  }
  EXPECT_GT(accepted, 0);
}

TEST(Wire, RandomlyChanged) {
  check_random_changes(a_report(), 1);
  check_random_changes(some_decisions(), 2);
}

TEST(Wire, ALyingCountAllocatesNothing) {
  // bucket 1 with 2^60 members
  const std::vector<std::byte> bytes = {std::byte{2},    std::byte{1},    std::byte{0x80},
                                        std::byte{0x80}, std::byte{0x80}, std::byte{0x80},
                                        std::byte{0x80}, std::byte{0x80}, std::byte{0x80},
                                        std::byte{0x80}, std::byte{0x10}};
  Decisions decisions;
  EXPECT_FALSE(decode(bytes, decisions).is_ok());
}

}  // namespace
}  // namespace kolo::wire
