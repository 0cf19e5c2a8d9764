#include "engine/slot_pool.hpp"

#include <gtest/gtest.h>

#include <set>

namespace kolo {
namespace {

TEST(SlotPool, TakesWhatHasRestedLongest) {
  SlotPool pool(9);  // slots 1 to 8, of which two rest
  std::set<int> taken;
  for (int i = 0; i < 6; ++i) taken.insert(pool.take().value().number);
  EXPECT_EQ(taken, (std::set<int>{1, 2, 3, 4, 5, 6}));
  EXPECT_FALSE(pool.take().has_value());
  pool.give_back(4);
  EXPECT_EQ(pool.take().value().number, 7);
  pool.give_back(1);
  EXPECT_EQ(pool.take().value().number, 8);
  pool.give_back(2);
  const auto again = pool.take();
  EXPECT_EQ(again.value().number, 4);
  EXPECT_EQ(again.value().generation, 1U);
}

// A group tells what it wrote from what the group before it left by the generation.
TEST(SlotPool, GenerationsOfASlotFollowEachOther) {
  SlotPool pool(2);
  for (std::uint64_t generation = 0; generation < 100'000; ++generation) {
    const auto slot = pool.take();
    ASSERT_EQ(slot.value().number, 1);
    ASSERT_EQ(slot.value().generation, generation);
    pool.give_back(1);
  }
}

}  // namespace
}  // namespace kolo
