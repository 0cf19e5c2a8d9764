#include "collectives/shm/board.hpp"

#include <gtest/gtest.h>

namespace kolo::shm {
namespace {

// The boards of two ranks, played by one thread.
class BoardTest : public testing::Test {
 protected:
  void post(Board& board, std::uint64_t sequence) {
    const Turn turn{sequence, 0};
    board.line(board.rank(), turn).posted.store(board.stamp(turn));
  }
  static std::uint64_t measured(std::uint64_t time, std::uint64_t nanoseconds) {
    return time << 16 | nanoseconds;
  }

  const std::vector<std::shared_ptr<Node>> nodes_ = make_local_nodes(2, 1 << 20);
  Board first_{nodes_[0], {0, 1}, 0, 0};
  Board second_{nodes_[1], {0, 1}, 0, 0};
};

TEST_F(BoardTest, DistanceIsKnownAfterThreeTimedLooksAtPostedLines) {
  for (std::uint64_t sequence = 0; sequence < 3; ++sequence) {
    const Turn turn{sequence, 0};
    EXPECT_EQ(first_.distance(), 0U);
    EXPECT_FALSE(first_.has_posted(1, turn, true));
    post(second_, sequence);
    EXPECT_TRUE(first_.has_posted(1, turn, true));
  }
  EXPECT_NE(first_.distance(), 0U);
}

TEST_F(BoardTest, WhatMayBeCachedIsNotMeasured) {
  for (std::uint64_t sequence = 0; sequence < 9; ++sequence) {
    post(second_, sequence);
    EXPECT_TRUE(first_.has_posted(1, {sequence, 0}, false));
  }
  EXPECT_EQ(first_.distance(), 0U);
  EXPECT_TRUE(first_.is_far());
}

TEST_F(BoardTest, TheNewestMeasureOfAnyRankCounts) {
  first_.note_distance(measured(5, 40));
  EXPECT_FALSE(first_.is_far());
  first_.note_distance(measured(6, 140));
  EXPECT_TRUE(first_.is_far());
  first_.note_distance(measured(4, 40));
  EXPECT_TRUE(first_.is_far());
  first_.note_distance(measured(7, 40));
  EXPECT_FALSE(first_.is_far());
  first_.note_distance(0);  // a peer that knows nothing
  EXPECT_FALSE(first_.is_far());
}

}  // namespace
}  // namespace kolo::shm
