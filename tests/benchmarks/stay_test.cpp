#include "benchmarks/stay.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "one_rank.hpp"

namespace kolo::bench {
namespace {

// The last rank of this node came at that time.
class LastAt final : public OneRank {
 public:
  explicit LastAt(double microseconds) : last_(microseconds) {}
  void largest_on_node(double* values, int /*count*/) override {
    values[0] = std::max(values[0], last_);
  }

 private:
  const double last_;
};

TEST(BenchBarrier, HeldIfNobodyLeftBeforeTheLastCame) {
  LastAt ranks(100);
  EXPECT_EQ(left_too_early(ranks, {90, 100}), "");
  EXPECT_EQ(left_too_early(ranks, {110, 120}), "");
  EXPECT_THAT(left_too_early(ranks, {90, 97.5}), testing::HasSubstr("rank 0 left the barrier 2.5"));
}

TEST(BenchBarrier, TimesGrow) {
  const double before = monotonic_microseconds();
  EXPECT_GT(before, 0);
  EXPECT_LE(before, monotonic_microseconds());
}

}  // namespace
}  // namespace kolo::bench
