#include "benchmarks/pattern.hpp"

#include <gtest/gtest.h>

#include <functional>

namespace kolo::bench {
namespace {

constexpr std::size_t kCount = 3 * Pattern::kPeriod + 100;

// The sum over ranks, with the values of `rank` in `round` for those of rank i where given.
std::vector<float> sum_of(int ranks, const std::function<Pattern(int)>& pattern_of,
                          std::size_t offset = 0) {
  std::vector<float> sum(kCount);
  std::vector<float> one(kCount);
  for (int rank = 0; rank < ranks; ++rank) {
    pattern_of(rank).fill(one.data(), kCount, offset);
    for (std::size_t i = 0; i < kCount; ++i) sum[i] += one[i];
  }
  return sum;
}

TEST(BenchPattern, SumsAreWhatIsExpectedOnEveryRank) {
  for (const int ranks : {1, 2, 3, 7}) {
    for (const std::size_t offset : {0, 5, 4092, 100000}) {
      const auto sum = sum_of(
          ranks, [&](int rank) { return Pattern(rank, ranks, 3); }, offset);
      for (int rank = 0; rank < ranks; ++rank) {
        EXPECT_FALSE(Pattern(rank, ranks, 3).first_difference(sum.data(), kCount, offset));
      }
    }
  }
}

// What `calls` sums in place leave, one by one.
std::vector<float> summed_in_place(int ranks, int calls) {
  auto values = sum_of(ranks, [&](int rank) { return Pattern(rank, ranks, 3); });
  for (; calls > 1; --calls) {
    const auto before = values;
    for (int rank = 1; rank < ranks; ++rank) {
      for (std::size_t i = 0; i < kCount; ++i) values[i] += before[i];
    }
  }
  return values;
}

TEST(BenchPattern, SumsInPlaceMayFollowEachOther) {
  for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 20, 24, 48, 96, 128}) {
    const int calls = Pattern::most_calls(ranks, 16);
    const Pattern pattern(0, ranks, 3, calls);
    const auto values = summed_in_place(ranks, calls);
    EXPECT_FALSE(pattern.first_difference(values.data(), kCount)) << ranks;
    const auto once = summed_in_place(ranks, 1);
    EXPECT_FALSE(pattern.first_difference_elsewhere(once.data(), kCount)) << ranks;
    if (ranks == 1 || calls == 1) continue;
    EXPECT_TRUE(pattern.first_difference_elsewhere(values.data(), kCount)) << ranks;
    // One that was left out, and one too many.
    for (const int other : {calls - 1, calls + 1}) {
      const auto wrong = summed_in_place(ranks, other);
      EXPECT_TRUE(pattern.first_difference(wrong.data(), kCount)) << ranks;
    }
  }
}

TEST(BenchPattern, NoMoreSumsInPlaceThanAreExact) {
  EXPECT_EQ(Pattern::most_calls(1, 16), 16);
  EXPECT_EQ(Pattern::most_calls(2, 16), 16);
  EXPECT_EQ(Pattern::most_calls(2, 1), 1);
  EXPECT_EQ(Pattern::most_calls(3, 16), 10);  // 255 x 3^10 < 2^24
  EXPECT_EQ(Pattern::most_calls(24, 16), 6);  // 255 x 24 x 3^4 x 23 < 2^24
  EXPECT_EQ(Pattern::most_calls(128, 16), 16);
  EXPECT_EQ(Pattern::most_calls(255, 16), 2);
  EXPECT_EQ(Pattern::most_calls(4096, 16), 1);
  EXPECT_EQ(Pattern::most_calls(65535, 16), 1);
  EXPECT_EQ(Pattern::most_calls(4, 3), 3);
}

TEST(BenchPattern, OneWrongElementIsFound) {
  const Pattern pattern(0, 2, 0);
  auto sum = sum_of(2, [](int rank) { return Pattern(rank, 2, 0); });
  for (const std::size_t wrong :
       {std::size_t{0}, Pattern::kPeriod - 1, Pattern::kPeriod, kCount - 1}) {
    const float right = sum[wrong];
    sum[wrong] += 1;
    const auto difference = pattern.first_difference(sum.data(), kCount);
    ASSERT_TRUE(difference);
    EXPECT_EQ(difference->index, wrong);
    EXPECT_EQ(difference->found, right + 1);
    EXPECT_EQ(difference->expected, right);
    sum[wrong] = right;
  }
}

TEST(BenchPattern, FirstOfSeveralIsNamed) {
  auto sum = sum_of(2, [](int rank) { return Pattern(rank, 2, 0); });
  sum[9] = sum[5000] = -1;
  EXPECT_EQ(Pattern(1, 2, 0).first_difference(sum.data(), kCount)->index, 9U);
}

TEST(BenchPattern, WrongRankRoundOrPlaceIsNoticed) {
  const Pattern pattern(0, 3, 4);
  // Rank 1 three times has the sum of 0, 1 and 2 in a pattern that is linear in the rank.
  EXPECT_TRUE(
      pattern.first_difference(sum_of(3, [](int) { return Pattern(1, 3, 4); }).data(), kCount));
  const auto right = sum_of(3, [](int rank) { return Pattern(rank, 3, 4); });
  EXPECT_FALSE(pattern.first_difference(right.data(), kCount));
  EXPECT_TRUE(Pattern(0, 3, 5).first_difference(right.data(), kCount));
  // A piece of a power of two in the place of another.
  EXPECT_TRUE(pattern.first_difference(right.data() + 4096, kCount - 4096));
}

TEST(BenchPattern, KnowsTheValuesOfEveryRank) {
  std::vector<float> values(kCount);
  Pattern(2, 3, 4).fill(values.data(), kCount, 77);
  const Pattern pattern(0, 3, 4);
  EXPECT_FALSE(pattern.first_difference_from(2, values.data(), kCount, 77));
  EXPECT_TRUE(pattern.first_difference_from(1, values.data(), kCount, 77));
  EXPECT_TRUE(pattern.first_difference_from(2, values.data(), kCount, 78));
  EXPECT_TRUE(Pattern(0, 3, 5).first_difference_from(2, values.data(), kCount, 77));
  values[9000] += 1;
  EXPECT_EQ(pattern.first_difference_from(2, values.data(), kCount, 77)->index, 9000U);
}

TEST(BenchPattern, ADifferenceIsDescribed) {
  EXPECT_EQ(describe({3, 7, 9.5}, "'fc.bias'", 1),
            "element 3 of 'fc.bias' on rank 1 is 7, expected 9.5");
}

TEST(BenchPattern, NothingIsRight) {
  EXPECT_FALSE(Pattern(0, 2, 0).first_difference(nullptr, 0));
}

}  // namespace
}  // namespace kolo::bench
