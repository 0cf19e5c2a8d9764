// Orders of an epoch's samples: the same on every machine, and with the properties they promise.
#include "kolo/data/order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "data/shard.hpp"
#include "kolo/error.h"

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

Order sorted(Order order) {
  std::sort(order.begin(), order.end());
  return order;
}

// Made by a Python program of its own. If they change, saved runs can no longer be continued or
// repeated.
TEST(SampleOrder, IsTheSameEverywhere) {
  EXPECT_THAT(SampleOrder::weighted({1, 0, 3, 2}, 12).of_epoch(5, 1),
              ElementsAre(2, 2, 0, 3, 2, 3, 3, 2, 3, 2, 2, 2));
  EXPECT_THAT(SampleOrder::weighted({1, 0, 3, 2, 0.5}, 4, false).of_epoch(5, 1),
              ElementsAre(2, 0, 3, 4));
  EXPECT_THAT(SampleOrder::stratified({7, 7, 3, 7, 3, 7, 7, 9}).of_epoch(5, 1),
              ElementsAre(6, 2, 3, 7, 0, 1, 4, 5));
  EXPECT_THAT(SampleOrder::in_blocks(29, 3, 4).of_epoch(0, 1),
              ElementsAre(3, 22, 7, 2, 4, 21, 6, 0, 5, 23, 8, 1, 19, 28, 10, 12, 20, 27, 11, 14, 18,
                          25, 9, 13, 17, 24, 16, 26, 15));
  EXPECT_EQ(SampleOrder::shuffled(100).of_epoch(5, 1), permutation(100, 5, 1));
  EXPECT_EQ(SampleOrder::sequential(100).of_epoch(5, 1), numbers(100));
}

TEST(SampleOrder, DiffersByEpochAndSeed) {
  for (const SampleOrder& order : {SampleOrder::weighted(std::vector<double>(100, 1), 100),
                                   SampleOrder::weighted(std::vector<double>(100, 1), 100, false),
                                   SampleOrder::stratified(std::vector<std::int64_t>(100, 1)),
                                   SampleOrder::in_blocks(100, 7, 3)}) {
    std::set<Order> orders;
    for (std::uint64_t seed = 0; seed < 10; ++seed)
      for (std::uint64_t epoch = 0; epoch < 10; ++epoch) orders.insert(order.of_epoch(seed, epoch));
    EXPECT_EQ(orders.size(), 100U);
    EXPECT_EQ(order.of_epoch(3, 4), order.of_epoch(3, 4));
  }
}

// Of 40,000 draws; five standard deviations are 500 at most.
TEST(SampleOrder, DrawsInProportionToTheWeights) {
  const std::vector<double> weights{1, 0, 3, 0.5, 3.5};
  const SampleOrder order = SampleOrder::weighted(weights, 40000);
  EXPECT_EQ(order.size(), 40000U);
  EXPECT_EQ(order.dataset_size(), 5U);
  std::map<std::size_t, int> counts;
  for (const std::size_t sample : order.of_epoch(1, 2)) ++counts[sample];
  EXPECT_EQ(counts.count(1), 0U);
  for (const std::size_t sample : {0, 2, 3, 4})
    EXPECT_NEAR(counts[sample], 40000 * weights[sample] / 8, 500) << sample;
}

// Without replacement the first one is drawn from all, the second from the rest.
TEST(SampleOrder, DrawsWithoutReplacement) {
  const std::vector<double> weights{1, 0, 2, 5};
  const SampleOrder order = SampleOrder::weighted(weights, 3, false);
  std::map<std::size_t, int> first;
  std::map<std::size_t, int> second_after_largest;
  constexpr int kEpochs = 8000;
  for (std::uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
    const Order drawn = order.of_epoch(1, epoch);
    ASSERT_THAT(sorted(drawn), ElementsAre(0, 2, 3));
    ++first[drawn[0]];
    if (drawn[0] == 3) ++second_after_largest[drawn[1]];
  }
  for (const std::size_t sample : {0, 2, 3})
    EXPECT_NEAR(first[sample], kEpochs * weights[sample] / 8, 225) << sample;
  EXPECT_NEAR(second_after_largest[2], first[3] * 2.0 / 3, 170);
  // Among many samples, of which some have no weight.
  std::vector<double> many;
  for (int i = 0; i < 1000; ++i) many.push_back(i % 3);
  const Order all = SampleOrder::weighted(many, 666, false).of_epoch(4, 5);
  EXPECT_EQ(std::set<std::size_t>(all.begin(), all.end()).size(), 666U);
  for (const std::size_t sample : all) EXPECT_NE(sample % 3, 0U);
}

TEST(SampleOrder, TinyWeightsAreNotLost) {
  const Order all = SampleOrder::weighted({1e300, 1e-300, 0}, 2, false).of_epoch(1, 1);
  EXPECT_THAT(all, ElementsAre(0, 1));
}

TEST(SampleOrder, WrongArguments) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double wrong : {-1.0, kNone, kInfinity})
    EXPECT_THROW(SampleOrder::weighted({1, wrong}, 2), InvalidArgumentError) << wrong;
  EXPECT_THROW(SampleOrder::weighted({0, 0}, 2), InvalidArgumentError);
  EXPECT_THROW(SampleOrder::weighted({}, 2), InvalidArgumentError);
  EXPECT_THROW(SampleOrder::weighted({1, 0, 1}, 3, false), InvalidArgumentError);
  EXPECT_THROW(SampleOrder::in_blocks(10, 0, 1), InvalidArgumentError);
  EXPECT_THROW(SampleOrder::in_blocks(10, 1, 0), InvalidArgumentError);
  EXPECT_THAT(SampleOrder::stratified({}).of_epoch(0, 0), IsEmpty());
  EXPECT_THAT(SampleOrder::in_blocks(0, 5, 2).of_epoch(0, 0), IsEmpty());
}

// In every beginning of the order each class has its share, to a sample or two.
TEST(SampleOrder, StratifiedSpreadsEachClassEvenly) {
  const std::map<std::int64_t, int> sizes{{0, 500}, {5, 300}, {-2, 150}, {9, 49}, {11, 1}};
  std::vector<std::int64_t> labels;
  for (const auto& [label, count] : sizes) labels.insert(labels.end(), count, label);
  const SampleOrder order = SampleOrder::stratified(labels);
  for (std::uint64_t epoch = 0; epoch < 5; ++epoch) {
    const Order samples = order.of_epoch(7, epoch);
    ASSERT_EQ(sorted(samples), numbers(1000));
    std::map<std::int64_t, int> seen;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      ++seen[labels[samples[i]]];
      for (const auto& [label, count] : sizes) {
        const double wanted = static_cast<double>(count) * static_cast<double>(i + 1) / 1000;
        ASSERT_NEAR(seen[label], wanted, 2) << "class " << label << " after " << i + 1;
      }
    }
  }
}

// With 3 ranks and 6 streams each rank reads two blocks at a time, and no other rank reads them.
TEST(SampleOrder, ARankReadsBlocksOfItsOwn) {
  constexpr std::size_t kBlock = 10;
  constexpr std::size_t kBlocks = 60;
  const Order order = SampleOrder::in_blocks(kBlocks * kBlock, kBlock, 6).of_epoch(3, 4);
  ASSERT_EQ(sorted(order), numbers(kBlocks * kBlock));
  std::map<std::size_t, std::set<std::size_t>> readers;
  for (std::size_t rank = 0; rank < 3; ++rank) {
    const Order share = share_of(order, {3, rank, false});
    for (std::size_t i = 0; i < share.size(); ++i) readers[share[i] / kBlock].insert(rank);
    for (std::size_t begin = 0; begin < share.size(); begin += 2 * kBlock) {
      std::set<std::size_t> blocks;
      for (std::size_t i = begin; i < begin + 2 * kBlock; ++i) blocks.insert(share[i] / kBlock);
      EXPECT_EQ(blocks.size(), 2U) << "rank " << rank << " at " << begin;
    }
  }
  for (const auto& [block, ranks] : readers) EXPECT_EQ(ranks.size(), 1U) << "block " << block;
}

TEST(SampleOrder, BlocksNeedNotDivide) {
  for (std::size_t size = 0; size <= 40; ++size)
    for (const std::size_t block : {1, 3, 7, 100})
      for (const std::size_t streams : {1, 2, 5, 50})
        EXPECT_EQ(sorted(SampleOrder::in_blocks(size, block, streams).of_epoch(1, size)),
                  numbers(size));
}

TEST(SampleOrder, AProgramsOwn) {
  const auto backwards = [](std::uint64_t seed, std::uint64_t epoch) {
    return epoch == 0 ? Order{3, 2, 1} : Order{static_cast<std::size_t>(seed), 0};
  };
  const SampleOrder order = SampleOrder::custom(4, 3, 77, backwards);
  EXPECT_THAT(order.of_epoch(9, 0), ElementsAre(3, 2, 1));
  EXPECT_THROW(order.of_epoch(1, 1), InvalidArgumentError) << "two samples";
  EXPECT_THROW(SampleOrder::custom(4, 2, 77, backwards).of_epoch(4, 1), InvalidArgumentError)
      << "sample 4";
  EXPECT_THROW(SampleOrder::custom(4, 3, 0, backwards), InvalidArgumentError);
  EXPECT_THROW(SampleOrder::custom(4, 3, ~std::uint64_t{0}, backwards), InvalidArgumentError);
}

TEST(SampleOrder, FingerprintsTellOrdersApart) {
  std::set<std::uint64_t> all;
  for (const SampleOrder& order :
       {SampleOrder::shuffled(4), SampleOrder::weighted({1, 2, 3, 4}, 4),
        SampleOrder::weighted({1, 2, 3, 4}, 4, false), SampleOrder::weighted({1, 2, 3, 4}, 3),
        SampleOrder::weighted({1, 2, 4, 3}, 4), SampleOrder::stratified({1, 2, 2, 1}),
        SampleOrder::stratified({1, 1, 2, 2}), SampleOrder::in_blocks(4, 1, 2),
        SampleOrder::in_blocks(4, 2, 1)}) {
    EXPECT_LT(order.fingerprint(), std::uint64_t{1} << 63);
    all.insert(order.fingerprint());
  }
  EXPECT_EQ(all.size(), 9U);
  EXPECT_EQ(SampleOrder::weighted({1, 2}, 2).fingerprint(),
            SampleOrder::weighted({2, 4}, 2).fingerprint())
      << "the same probabilities";
}

TEST(SampleOrder, ABlockMayBeLargerThanTheDataset) {
  const auto order = SampleOrder::in_blocks(5, std::numeric_limits<std::size_t>::max(), 2);
  std::vector<std::size_t> samples = order.of_epoch(1, 1);
  std::sort(samples.begin(), samples.end());
  EXPECT_EQ(samples, (std::vector<std::size_t>{0, 1, 2, 3, 4}));
}

}  // namespace
}  // namespace kolo::data
