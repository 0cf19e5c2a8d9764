#include "collectives/shm/trial.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "collectives/shm/exposure.hpp"

namespace kolo::shm {
namespace {

// Goes so many times, where the ways take so long; how often the second one was taken.
int seconds(Trial& trial, int times, std::array<double, 2> take) {
  int count = 0;
  for (int i = 0; i < times; ++i) {
    const Trial::Way way = trial.next();
    trial.took(way, take[way]);
    count += way == Trial::kSecond;
  }
  return count;
}

TEST(Trial, BeginsWithBothInTurn) {
  Trial trial;
  for (const Trial::Way expected : {Trial::kFirst, Trial::kSecond, Trial::kSecond, Trial::kFirst,
                                    Trial::kFirst, Trial::kSecond}) {
    EXPECT_EQ(trial.next(), expected);
    trial.took(expected, 1);
  }
}

TEST(Trial, TakesTheQuickerWayAndTriesTheOtherOneAtTimes) {
  for (const bool second_is_quicker : {false, true}) {
    Trial trial;
    const std::array<double, 2> take =
        second_is_quicker ? std::array{3.0, 1.0} : std::array{1.0, 3.0};
    seconds(trial, 6, take);
    const int count = seconds(trial, 610, take);
    EXPECT_EQ(count, second_is_quicker ? 600 : 10);
  }
}

TEST(Trial, LeavesAWayThatHasBecomeSlowAfterThreeTimes) {
  Trial trial;
  seconds(trial, 10, {1, 2});
  EXPECT_EQ(seconds(trial, 3, {5, 2}), 0);
  EXPECT_EQ(seconds(trial, 40, {5, 2}), 40);
}

TEST(Trial, FindsAWayThatHasBecomeQuick) {
  Trial trial;
  seconds(trial, 10, {2, 3});
  EXPECT_GE(seconds(trial, 128, {2, 1}), 64);
}

TEST(Trial, OneDisturbedTimeDecidesNothing) {
  Trial trial;
  seconds(trial, 10, {1, 2});
  trial.took(trial.next(), 1000);
  EXPECT_EQ(trial.next(), Trial::kFirst);
}

// Two things that take turns, of which one takes ten times as long either way.
TEST(Trial, ComparesTheWaysAndNotWhatTakesTurns) {
  Trial trial;
  int count = 0;
  for (int i = 0; i < 1000; ++i) {
    const Trial::Way way = trial.next();
    trial.took(way, (i % 2 == 0 ? 10 : 1) * (way == Trial::kSecond ? 1 : 2));
    count += way == Trial::kSecond;
  }
  EXPECT_GT(count, 900);
}

// Nothing that was begun and never ended counts, and it holds nothing up.
TEST(Trial, MayMissTimes) {
  Trial trial;
  for (int i = 0; i < 10; ++i) EXPECT_EQ(trial.next(), Trial::kFirst);
  seconds(trial, 10, {2, 1});
  EXPECT_EQ(trial.next(), Trial::kSecond);
}

// Two ranks that expose private memory to each other, played by one thread: both ways are taken,
// and each brings the right bytes.
TEST(Trial, DecidesHowAnExposureIsStaged) {
  const std::vector<std::shared_ptr<Node>> nodes = make_local_nodes(2, 64 << 20);
  Board first{nodes[0], {0, 1}, 0, 0};
  Board second{nodes[1], {0, 1}, 0, 0};
  constexpr std::size_t kBytes = Exposure::kPiece;
  std::vector<std::byte> memory(kBytes);
  std::map<bool, int> streamed;
  for (std::uint64_t sequence = 0; sequence < 20; ++sequence) {
    std::fill(memory.begin(), memory.end(), static_cast<std::byte>(sequence));
    const Turn turn{sequence, 0};
    Exposure here(first, turn, {0, 1}, memory.data(), kBytes);
    Exposure there(second, turn, {0, 1}, memory.data(), kBytes);
    for (Exposure* side : {&here, &there}) {
      ASSERT_TRUE(side->begin());
      ASSERT_TRUE(side->post().is_ok());
    }
    Status status;
    for (Exposure* side : {&here, &there})
      ASSERT_TRUE(side->all_posted(status) && side->all_ready(1)) << status.message();
    ++streamed[here.streams_staged()];
    EXPECT_EQ(std::memcmp(there.at(0, 0, 0), memory.data(), kBytes), 0);
    for (Exposure* side : {&here, &there}) side->set_copied(1);
    for (Exposure* side : {&here, &there}) side->end();
  }
  EXPECT_GE(streamed[false], 3);
  EXPECT_GE(streamed[true], 3);
  // Times were taken: else it would still be at the beginning.
  EXPECT_GT(std::max(streamed[false], streamed[true]), 10);
}

}  // namespace
}  // namespace kolo::shm
