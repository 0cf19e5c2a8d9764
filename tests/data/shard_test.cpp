// Shares of a dataset: disjoint, complete, balanced, and the same on every machine.
#include "data/shard.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>

namespace kolo::data {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Order = std::vector<std::size_t>;

Order numbers(std::size_t size) {
  Order order(size);
  for (std::size_t i = 0; i < size; ++i) order[i] = i;
  return order;
}

// Made by a Python program of its own that follows the C++ standard's text for std::mt19937_64 and
// std::seed_seq. If they change, saved runs can no longer be continued or repeated.
TEST(Permutation, IsTheSameEverywhere) {
  EXPECT_THAT(permutation(10, 0, 0), ElementsAre(8, 2, 3, 5, 1, 6, 9, 7, 0, 4));
  EXPECT_THAT(permutation(10, 0, 1), ElementsAre(1, 7, 2, 0, 6, 9, 3, 4, 5, 8));
  EXPECT_THAT(permutation(10, 1, 0), ElementsAre(2, 1, 8, 9, 6, 7, 3, 5, 0, 4));
  EXPECT_THAT(permutation(10, (std::uint64_t{1} << 40) + 5, std::uint64_t{1} << 33),
              ElementsAre(0, 7, 5, 9, 1, 3, 4, 8, 2, 6));
  // More numbers than the generator makes at a time (312).
  Order beginning = permutation(1000, 7, 3);
  beginning.resize(5);
  EXPECT_THAT(beginning, ElementsAre(42, 734, 556, 142, 699));
}

TEST(Permutation, HasEveryNumberOnce) {
  for (std::size_t size = 0; size <= 50; ++size) {
    for (std::uint64_t epoch = 0; epoch < 5; ++epoch) {
      Order order = permutation(size, 3, epoch);
      std::sort(order.begin(), order.end());
      EXPECT_EQ(order, numbers(size));
    }
  }
}

TEST(Permutation, DiffersByEpochAndSeed) {
  std::set<Order> orders;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    for (std::uint64_t epoch = 0; epoch < 20; ++epoch) orders.insert(permutation(100, seed, epoch));
  }
  EXPECT_EQ(orders.size(), 400U);
  EXPECT_NE(permutation(100, 0, 0), permutation(100, std::uint64_t{1} << 32, 0));
  EXPECT_NE(permutation(100, 0, 0), permutation(100, 0, std::uint64_t{1} << 32));
  EXPECT_EQ(permutation(100, 5, 7), permutation(100, 5, 7));
}

// 24 orders of 4 things: 1,000 of each are expected of 24,000. The chi-square sum with 23 degrees
// of freedom exceeds 65 once in 100,000 fair shuffles; the seeds are fixed, so the test is
// repeatable.
TEST(Permutation, EveryOrderIsEquallyLikely) {
  std::map<Order, int> counts;
  for (std::uint64_t epoch = 0; epoch < 24000; ++epoch) ++counts[permutation(4, 9, epoch)];
  ASSERT_EQ(counts.size(), 24U);
  double chi_square = 0;
  for (const auto& [order, count] : counts)
    chi_square += (count - 1000.0) * (count - 1000.0) / 1000.0;
  EXPECT_LT(chi_square, 65);
}

TEST(ShardSize, IsRoundedUpOrDown) {
  EXPECT_EQ(share_size(10, 3, false), 4U);
  EXPECT_EQ(share_size(10, 3, true), 3U);
  EXPECT_EQ(share_size(9, 3, false), 3U);
  EXPECT_EQ(share_size(9, 3, true), 3U);
  EXPECT_EQ(share_size(0, 3, false), 0U);
  EXPECT_EQ(share_size(2, 3, true), 0U);
  constexpr auto kMost = std::numeric_limits<std::size_t>::max();
  EXPECT_EQ(share_size(kMost, 2, false), kMost / 2 + 1);
}

// dataset size, replicas, shuffle, drop_last
using Case = std::tuple<std::size_t, std::size_t, bool, bool>;

// All ranks' shares, dealt back into one order as a deck of cards is.
Order dealt_back(const std::vector<Order>& shares) {
  Order order;
  for (std::size_t i = 0; i < shares[0].size(); ++i) {
    for (const Order& share : shares) order.push_back(share[i]);
  }
  return order;
}

void check_epoch(const Case& which, std::uint64_t epoch) {
  const auto [size, replicas, shuffle, drop_last] = which;
  std::vector<Order> shares;
  for (std::size_t rank = 0; rank < replicas; ++rank) {
    shares.push_back(share_of(shuffle ? permutation(size, 11, epoch) : numbers(size),
                              {replicas, rank, drop_last}));
    ASSERT_EQ(shares.back().size(), share_size(size, replicas, drop_last)) << "balanced";
  }
  const Order order = shuffle ? permutation(size, 11, epoch) : numbers(size);
  const Order dealt = dealt_back(shares);
  const std::size_t common = std::min(dealt.size(), size);
  EXPECT_TRUE(
      std::equal(dealt.begin(), dealt.begin() + static_cast<std::ptrdiff_t>(common), order.begin()))
      << "disjoint, and in the order of the epoch";
  EXPECT_TRUE(drop_last ? size - common < replicas : common == size) << "complete";
  for (std::size_t i = size; i < dealt.size(); ++i)
    EXPECT_EQ(dealt[i], order[i % size]) << "padded";
}

TEST(Shard, EverySmallCase) {
  for (std::size_t size = 0; size <= 25; ++size) {
    for (std::size_t replicas = 1; replicas <= 9; ++replicas) {
      for (const bool shuffle : {false, true}) {
        for (const bool drop_last : {false, true}) {
          SCOPED_TRACE(::testing::Message() << size << " among " << replicas << ", shuffle "
                                            << shuffle << ", drop_last " << drop_last);
          for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
            check_epoch({size, replicas, shuffle, drop_last}, epoch);
          }
        }
      }
    }
  }
}

// The same as Python's list(DistributedSampler(range(n), num_replicas, rank, shuffle=False)).
TEST(Shard, PadsAsPython) {
  EXPECT_THAT(share_of(numbers(10), {4, 0, false}), ElementsAre(0, 4, 8));
  EXPECT_THAT(share_of(numbers(10), {4, 2, false}), ElementsAre(2, 6, 0));
  EXPECT_THAT(share_of(numbers(10), {4, 3, false}), ElementsAre(3, 7, 1));
  EXPECT_THAT(share_of(numbers(10), {4, 3, true}), ElementsAre(3, 7));
  EXPECT_THAT(share_of(numbers(2), {5, 4, false}), ElementsAre(0));
  EXPECT_THAT(share_of(numbers(2), {5, 4, true}), IsEmpty());
  EXPECT_THAT(share_of(numbers(0), {5, 4, false}), IsEmpty());
}

}  // namespace
}  // namespace kolo::data
