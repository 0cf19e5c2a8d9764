#include "collectives/shm/trial.hpp"

#include <gtest/gtest.h>

#include <array>

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
  for (const Trial::Way expected : {Trial::kFirst, Trial::kSecond, Trial::kFirst, Trial::kSecond,
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
    const int count = seconds(trial, 640, take);
    EXPECT_EQ(count, second_is_quicker ? 630 : 10);
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

// Nothing that was begun and never ended counts, and it holds nothing up.
TEST(Trial, MayMissTimes) {
  Trial trial;
  for (int i = 0; i < 10; ++i) EXPECT_EQ(trial.next(), Trial::kFirst);
  seconds(trial, 10, {2, 1});
  EXPECT_EQ(trial.next(), Trial::kSecond);
}

}  // namespace
}  // namespace kolo::shm
