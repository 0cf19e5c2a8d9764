#include "benchmarks/statistics.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "benchmarks/sizes.hpp"

namespace kolo::bench {
namespace {

TEST(Summarize, OddAndEvenNumbers) {
  EXPECT_EQ(summarize({3, 1, 2}).median, 2);
  EXPECT_EQ(summarize({4, 1, 3, 2}).median, 2.5);
  EXPECT_EQ(summarize({4, 1, 3, 2}).min, 1);
  EXPECT_EQ(summarize({4, 1, 3, 2}).samples, 4);
}

TEST(Summarize, NinetiethPercentileIsTheNearestRank) {
  std::vector<double> samples(10);
  std::iota(samples.rbegin(), samples.rend(), 1.0);
  EXPECT_EQ(summarize(samples).p90, 9);
  samples.push_back(11);
  EXPECT_EQ(summarize(samples).p90, 10);
  EXPECT_EQ(summarize({5}).p90, 5);
  EXPECT_EQ(summarize({5, 6}).p90, 6);
}

TEST(Summarize, OneAndNone) {
  EXPECT_EQ(summarize({5}).median, 5);
  EXPECT_EQ(summarize({}).samples, 0);
  EXPECT_EQ(summarize({}).median, 0);
}

TEST(RatioOfPairs, TakesThePairsNotTheMedians) {
  // The machine was four times as slow for the second pair, and each time the first took a tenth
  // longer.
  const Ratio ratio = ratio_of_pairs({11, 44, 22}, {10, 40, 20});
  EXPECT_DOUBLE_EQ(ratio.median, 1.1);
  EXPECT_DOUBLE_EQ(ratio.low, 1.1);
  EXPECT_DOUBLE_EQ(ratio.high, 1.1);
  EXPECT_EQ(ratio.pairs, 3);
}

TEST(RatioOfPairs, IntervalIsThatOfTheSignTest) {
  std::vector<double> samples(100);
  std::iota(samples.begin(), samples.end(), 1.0);
  const Ratio ratio = ratio_of_pairs(samples, std::vector<double>(100, 1.0));
  EXPECT_EQ(ratio.median, 50.5);
  EXPECT_EQ(ratio.low, 40);  // the tables of the sign test: the 40th and the 61st of 100
  EXPECT_EQ(ratio.high, 61);
  EXPECT_EQ(ratio_of_pairs({3, 1}, {1, 1}).low, 1);
  EXPECT_EQ(ratio_of_pairs({}, {}).pairs, 0);
}

TEST(BenchSizes, FourTimesAsLargeEachTime) {
  EXPECT_THAT(sizes_between(4, 100), testing::ElementsAre(4, 16, 64));
  EXPECT_THAT(sizes_between(12, 12), testing::ElementsAre(12));
  const auto all = sizes_between(4, 256 << 20);
  EXPECT_EQ(all.size(), 14U);
  EXPECT_EQ(all.back(), 256 << 20);
}

TEST(BenchSizes, FewerSamplesOfLargeTensors) {
  EXPECT_EQ(default_samples(4), 500);
  EXPECT_EQ(default_samples(16 << 20), 64);
  EXPECT_EQ(default_samples(std::int64_t{1} << 33), 20);
}

}  // namespace
}  // namespace kolo::bench
