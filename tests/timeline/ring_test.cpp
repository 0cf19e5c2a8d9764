#include "timeline/ring.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace kolo::timeline {
namespace {

struct Item {
  int writer = 0;
  int number = 0;
};

TEST(Ring, GivesWhatWasPutInInOrder) {
  Ring<int> ring(4);
  int item = 0;
  EXPECT_FALSE(ring.pop(item));
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 3; ++i) EXPECT_EQ(ring.push(10 * round + i), 3U * round + i + 1U);
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(ring.pop(item));
      EXPECT_EQ(item, 10 * round + i);
    }
    EXPECT_FALSE(ring.pop(item));
  }
}

TEST(Ring, DropsAndCountsWhatItHasNoRoomFor) {
  Ring<int> ring(4);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(ring.push(i).has_value());
  EXPECT_FALSE(ring.push(4).has_value());
  EXPECT_FALSE(ring.push(5).has_value());
  EXPECT_EQ(ring.take_dropped(), 2U);
  EXPECT_EQ(ring.take_dropped(), 0U);
  int item = -1;
  ASSERT_TRUE(ring.pop(item));
  EXPECT_EQ(item, 0);
  EXPECT_TRUE(ring.push(6).has_value());
  for (const int expected : {1, 2, 3, 6}) {
    ASSERT_TRUE(ring.pop(item));
    EXPECT_EQ(item, expected);
  }
}

// Nothing is lost that is not counted, nothing comes twice, and each writer's come in order.
TEST(Ring, KeepsAllThatManyWritersPutIn) {
  constexpr int kWriters = 4;
  constexpr int kEach = 20000;
  Ring<Item> ring(64);
  std::vector<std::thread> writers;
  for (int writer = 0; writer < kWriters; ++writer) {
    writers.emplace_back([&ring, writer] {
      for (int i = 0; i < kEach; ++i) ring.push({writer, i});
    });
  }
  std::vector<int> last(kWriters, -1);
  std::uint64_t taken = 0;
  std::uint64_t dropped = 0;
  while (taken + dropped < std::uint64_t{kWriters} * kEach) {
    Item item;
    while (ring.pop(item)) {
      ASSERT_GT(item.number, last[item.writer]);
      last[item.writer] = item.number;
      ++taken;
    }
    dropped += ring.take_dropped();
    std::this_thread::yield();
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(taken + dropped, std::uint64_t{kWriters} * kEach);
  EXPECT_GT(taken, 0U);
}

}  // namespace
}  // namespace kolo::timeline
