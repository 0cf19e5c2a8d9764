#include "collectives/shm/distance.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "collectives/shm/exposure.hpp"

namespace kolo::shm {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

class DistanceTest : public testing::Test {
 protected:
  void note(nanoseconds fetch) {
    distance_.note_fetch(now_, now_ + fetch);
    now_ += fetch;
  }

  Clock::time_point now_ = Clock::now();
  Distance distance_;
};

TEST_F(DistanceTest, IsKnownAfterThreeFetches) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(distance_.is_known(now_));
    EXPECT_FALSE(distance_.is_near(now_));
    note(nanoseconds(60));
  }
  EXPECT_TRUE(distance_.is_known(now_));
  EXPECT_TRUE(distance_.is_near(now_));
}

TEST_F(DistanceTest, TheMiddleOfTheLastThreeFetchesCounts) {
  for (const int fetch : {60, 900, 60}) note(nanoseconds(fetch));
  EXPECT_TRUE(distance_.is_near(now_));
  note(nanoseconds(160));
  EXPECT_FALSE(distance_.is_near(now_));
  for (const int fetch : {60, 160}) note(nanoseconds(fetch));
  EXPECT_FALSE(distance_.is_near(now_));
  note(nanoseconds(60));
  EXPECT_TRUE(distance_.is_near(now_));
}

TEST_F(DistanceTest, WhatWasSeenAWhileAgoCountsNoMore) {
  for (int i = 0; i < 3; ++i) note(nanoseconds(60));
  EXPECT_TRUE(distance_.is_near(now_ + milliseconds(9)));
  now_ += milliseconds(11);
  EXPECT_FALSE(distance_.is_known(now_));
  for (int i = 0; i < 2; ++i) {
    note(nanoseconds(60));
    EXPECT_FALSE(distance_.is_near(now_));
  }
  note(nanoseconds(60));
  EXPECT_TRUE(distance_.is_near(now_));
}

// Two ranks that expose private memory to each other, played by one thread.
TEST(ExposureDistanceTest, IsMeasuredInACollective) {
  const std::vector<std::shared_ptr<Node>> nodes = make_local_nodes(2, 64 << 20);
  Board first{nodes[0], {0, 1}, 0, 0};
  Board second{nodes[1], {0, 1}, 0, 0};
  constexpr std::size_t kPieces = 8;
  const std::vector<std::byte> memory(kPieces * Exposure::kPiece);
  const auto run = [&](std::uint64_t sequence) {
    const Turn turn{sequence, 0};
    Exposure here(first, turn, {0, 1}, memory.data(), memory.size());
    Exposure there(second, turn, {0, 1}, memory.data(), memory.size());
    for (Exposure* side : {&here, &there}) {
      ASSERT_TRUE(side->begin());
      ASSERT_TRUE(side->post().is_ok());
    }
    for (Exposure* side : {&here, &there}) ASSERT_TRUE(side->all_posted());
    for (std::size_t piece = 1; piece <= kPieces; ++piece) {
      for (Exposure* side : {&here, &there}) {
        side->stage_one();
        side->set_copied(piece);
      }
      ASSERT_TRUE(here.all_copied(piece));
    }
    for (Exposure* side : {&here, &there}) side->end();
  };
  // A measure is valid for some milliseconds only, and the machine may be slow.
  bool known = false;
  for (std::uint64_t sequence = 0; sequence < 1000 && !known; ++sequence) {
    ASSERT_NO_FATAL_FAILURE(run(sequence));
    known = first.distance(1).is_known(Clock::now());
  }
  EXPECT_TRUE(known);
  EXPECT_FALSE(first.distance(0).is_known(Clock::now()));
}

}  // namespace
}  // namespace kolo::shm
