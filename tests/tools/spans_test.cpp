#include "tools/trace/spans.hpp"

#include <gtest/gtest.h>

namespace kolo::tools {
namespace {

TEST(Spans, AreUnitedAndCut) {
  const Spans spans = united({{5, 7}, {1, 3}, {2, 4}, {6, 6.5}, {9, 9}});
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_EQ(spans[0].end, 4);
  EXPECT_EQ(spans[1].end, 7);
  EXPECT_DOUBLE_EQ(covered(spans, {3, 6}), 2);
  EXPECT_DOUBLE_EQ(covered(spans, {4, 5}), 0);
  const Spans both = intersection(spans, {{0, 2}, {3.5, 5.5}, {6.5, 10}});
  ASSERT_EQ(both.size(), 4U);
  EXPECT_DOUBLE_EQ(covered(both, {0, 10}), 1 + 0.5 + 0.5 + 0.5);
}

TEST(Spans, Quantiles) {
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(quantile({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, 0.1), 2);
  EXPECT_EQ(quantile({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, 1), 11);
}

}  // namespace
}  // namespace kolo::tools
