// Both channels must bring every message whole and in order.
#include "collectives/control_channel.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <numeric>
#include <random>
#include <thread>

#include "collectives/local/transport.hpp"
#include "collectives/messages/control_channel.hpp"
#include "collectives/shm/control_channel.hpp"
#include "collectives/shm/layout.hpp"

namespace kolo {
namespace {

using Bytes = ControlChannel::Bytes;

// The channels of a group, by rank, and what they stand on.
struct Channels {
  std::vector<std::unique_ptr<Transport>> transports;
  std::vector<std::shared_ptr<shm::Node>> nodes;
  std::deque<std::unique_ptr<ControlChannel>> by_rank;
};

std::vector<int> first_ranks(int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

Channels make_channels(bool shared, int size) {
  Channels made;
  if (shared) {
    made.nodes = shm::make_local_nodes(size, 64 << 20);
    for (const auto& node : made.nodes)
      made.by_rank.push_back(shm::make_control_channel(node, first_ranks(size), 3, 7));
  } else {
    made.transports = make_local_transports(size);
    for (const auto& transport : made.transports)
      made.by_rank.push_back(make_message_control_channel(*transport));
  }
  return made;
}

// The n-th message of a rank, of any length: short ones, ones that just fit a line or two, and some
// that are longer than a ring.
Bytes message(int rank, int n) {
  std::mt19937 random(static_cast<unsigned>(rank * 1000 + n));
  constexpr std::size_t kLengths[] = {0, 1, 5, 55, 56, 57, 112, 113, 4000, 200'000};
  Bytes bytes(kLengths[random() % std::size(kLengths)]);
  std::array<std::byte, 64> some;
  for (std::byte& byte : some) byte = static_cast<std::byte>(random());
  for (std::size_t i = 0; i < bytes.size(); i += some.size()) {
    std::memcpy(some.data(), &i, sizeof i);
    std::copy_n(some.begin(), std::min(some.size(), bytes.size() - i),
                bytes.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return bytes;
}

std::optional<ControlChannel::Message> receive(ControlChannel& channel) {
  std::optional<ControlChannel::Message> message;
  const Status status = channel.receive(message);
  EXPECT_TRUE(status.is_ok()) << status.message();
  return message;
}

void advance(ControlChannel& channel) {
  bool moved = false;
  const Status status = channel.advance(moved);
  EXPECT_TRUE(status.is_ok()) << status.message();
}

class ControlChannels : public testing::TestWithParam<bool> {};

// Sends as fast as it can, and looks at times whether something has come.
void talk(ControlChannel& channel) {
  constexpr int kMessages = 300;
  std::vector<int> came(static_cast<std::size_t>(channel.size()), 0);
  int sent = 0;
  int left = kMessages * (channel.rank() == 0 ? channel.size() - 1 : 1);
  while (sent < kMessages || left > 0 || channel.sending()) {
    if (sent < kMessages) {
      ASSERT_TRUE(channel.send(message(channel.rank(), sent++)).is_ok());
    }
    advance(channel);
    if (sent < kMessages && sent % 7 != 0) continue;
    const auto found = receive(channel);
    if (!found) {
      std::this_thread::yield();
      continue;
    }
    ASSERT_EQ(found->bytes, message(found->from, came[found->from]++)) << "from " << found->from;
    --left;
  }
  EXPECT_FALSE(receive(channel));
}

TEST_P(ControlChannels, BringEveryMessageWholeAndInOrder) {
  for (const int size : {2, 3, 5}) {
    Channels channels = make_channels(GetParam(), size);
    std::vector<std::thread> threads;
    for (const auto& channel : channels.by_rank)
      threads.emplace_back([&channel] { talk(*channel); });
    for (std::thread& thread : threads) thread.join();
  }
}

TEST(MessageControlChannel, ARankAloneTalksToNobody) {
  Channels channels = make_channels(false, 1);
  ASSERT_TRUE(channels.by_rank[0]->send(message(0, 0)).is_ok());
  EXPECT_FALSE(channels.by_rank[0]->sending());
  EXPECT_FALSE(receive(*channels.by_rank[0]));
}

// Rank 0 writes more than its ring holds; rank 2 reads nothing for long.
TEST_P(ControlChannels, WaitForASlowReader) {
  Channels channels = make_channels(GetParam(), 3);
  const Bytes large(shm::ControlRing::kLines * 64, std::byte{1});
  for (int n = 0; n < 3; ++n) ASSERT_TRUE(channels.by_rank[0]->send(large).is_ok());
  EXPECT_TRUE(channels.by_rank[0]->sending());
  for (int n = 0; n < 100; ++n) {
    advance(*channels.by_rank[0]);
    if (GetParam()) {
      EXPECT_FALSE(receive(*channels.by_rank[1])) << "rank 2 has not read";
    }
  }
  int came_to_1 = 0;
  int came_to_2 = 0;
  for (int n = 0; n < 100; ++n) {
    advance(*channels.by_rank[0]);
    if (const auto found = receive(*channels.by_rank[1])) came_to_1 += found->bytes == large;
    if (const auto found = receive(*channels.by_rank[2])) came_to_2 += found->bytes == large;
  }
  EXPECT_EQ(came_to_1, 3);
  EXPECT_EQ(came_to_2, 3);
  EXPECT_FALSE(channels.by_rank[0]->sending());
}

INSTANTIATE_TEST_SUITE_P(All, ControlChannels, testing::Bool(), [](const auto& tested) {
  return tested.param ? "InSharedMemory" : "OverMessages";
});

// What a group that had the slot before has left in the rings means nothing, whether it has gone
// around them or has written a line or two.
TEST(SharedMemoryControlChannel, ANewGroupBeginsAnew) {
  const auto nodes = shm::make_local_nodes(2, 64 << 20);
  for (std::uint64_t generation = 65530; generation < 65545; ++generation) {
    const auto left = shm::make_control_channel(nodes[0], {0, 1}, 0, generation);
    const auto right = shm::make_control_channel(nodes[1], {0, 1}, 0, generation);
    EXPECT_FALSE(receive(*left)) << generation;
    EXPECT_FALSE(receive(*right)) << generation;
    for (int n = 0; n < (generation % 3 == 0 ? 40 : 0); ++n) {
      ASSERT_TRUE(left->send(message(0, n)).is_ok());
      ASSERT_TRUE(right->send(message(1, n)).is_ok());
      std::optional<ControlChannel::Message> to_left;
      std::optional<ControlChannel::Message> to_right;
      for (int round = 0; round < 20; ++round) {
        advance(*left);
        advance(*right);
        if (!to_left) to_left = receive(*left);
        if (!to_right) to_right = receive(*right);
      }
      ASSERT_TRUE(to_left && to_right) << generation;
      ASSERT_EQ(to_left->bytes, message(1, n));
      ASSERT_EQ(to_right->bytes, message(0, n));
    }
    ASSERT_TRUE(left->send(Bytes(5)).is_ok());  // nobody reads it
  }
}

}  // namespace
}  // namespace kolo
