#include "checkpoint/box.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <random>
#include <set>

namespace kolo::checkpoint {
namespace {

using Shape = std::vector<std::int64_t>;

// Index in the whole tensor of each element of the box, in the box's order: by counting.
std::vector<std::uint64_t> by_counting(const Shape& shape, const Box& box) {
  std::vector<std::uint64_t> all;
  Shape at(shape.size(), 0);
  for (std::uint64_t i = 0; i < elements_of(box); ++i) {
    std::uint64_t index = 0;
    for (std::size_t d = 0; d < shape.size(); ++d)
      index = index * static_cast<std::uint64_t>(shape[d]) +
              static_cast<std::uint64_t>(box.start[d] + at[d]);
    all.push_back(index);
    for (std::size_t d = shape.size(); d-- > 0;) {
      if (++at[d] < box.extent[d]) break;
      at[d] = 0;
    }
  }
  return all;
}

TEST(Box, RunsAreTheElementsInOrder) {
  std::minstd_rand random(1);
  const auto below = [&](std::int64_t limit) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(limit));
  };
  for (int round = 0; round < 2000; ++round) {
    Shape shape(static_cast<std::size_t>(below(5)));
    Box box;
    for (std::int64_t& extent : shape) {
      extent = below(5) + (below(10) == 0 ? 0 : 1);
      box.start.push_back(extent == 0 ? 0 : below(extent));
      const bool is_full = below(2) == 0;
      if (is_full) box.start.back() = 0;
      box.extent.push_back(is_full ? extent : below(extent - box.start.back() + 1));
    }
    ASSERT_TRUE(is_within(box, shape));
    std::vector<std::uint64_t> from_runs;
    std::uint64_t next_in_box = 0;
    std::optional<std::uint64_t> last_end;
    for_each_run(shape, box, [&](const auto& run) {
      EXPECT_EQ(run.in_box, next_in_box);
      next_in_box += run.elements;
      EXPECT_GT(run.elements, 0);
      // Two runs with nothing between them would be one.
      if (last_end) {
        EXPECT_GT(run.in_tensor, *last_end);
      }
      last_end = run.in_tensor + run.elements;
      for (std::uint64_t i = 0; i < run.elements; ++i) from_runs.push_back(run.in_tensor + i);
    });
    EXPECT_EQ(from_runs, by_counting(shape, box));
  }
}

TEST(Box, WholeIsOneRun) {
  int runs = 0;
  for_each_run({3, 4, 5}, whole({3, 4, 5}), [&](const auto& run) {
    ++runs;
    EXPECT_EQ(run.elements, 60);
  });
  for_each_run({}, whole({}), [&](const auto& run) {
    ++runs;
    EXPECT_EQ(run.elements, 1);
  });
  EXPECT_EQ(runs, 2);
}

TEST(Box, WithinSaysNoToWhatIsOutside) {
  EXPECT_TRUE(is_within({{0, 1}, {2, 2}}, {2, 3}));
  EXPECT_FALSE(is_within({{0, 2}, {2, 2}}, {2, 3}));
  EXPECT_FALSE(is_within({{0, -1}, {2, 2}}, {2, 3}));
  EXPECT_FALSE(is_within({{0, 1}, {2, -1}}, {2, 3}));
  EXPECT_FALSE(is_within({{0}, {2}}, {2, 3}));
  EXPECT_FALSE(is_within({{INT64_MAX, 0}, {INT64_MAX, 1}}, {2, 3}));
}

TEST(Box, OverlapIsACommonElement) {
  const Box left{{0, 0}, {2, 2}};
  EXPECT_TRUE(overlap(left, {{1, 1}, {2, 2}}));
  EXPECT_FALSE(overlap(left, {{2, 0}, {2, 2}}));
  EXPECT_FALSE(overlap(left, {{0, 2}, {2, 2}}));
  EXPECT_FALSE(overlap(left, {{1, 1}, {0, 2}}));
}

}  // namespace
}  // namespace kolo::checkpoint
