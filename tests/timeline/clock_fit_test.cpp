#include "timeline/clock_fit.hpp"

#include <gtest/gtest.h>

namespace kolo::timeline {
namespace {

constexpr Nanoseconds kSecond = 1'000'000'000;

TEST(ClockFit, WithoutReadingsClocksAreOne) {
  const ClockFit fit({});
  EXPECT_EQ(fit.offset(5 * kSecond), 0);
  EXPECT_EQ(fit.error(), 0);
  EXPECT_EQ(fit.drift(), 0);
}

TEST(ClockFit, OneReadingHoldsForEver) {
  const ClockFit fit({{10 * kSecond, 700, 50}});
  EXPECT_EQ(fit.offset(0), 700);
  EXPECT_EQ(fit.offset(1000 * kSecond), 700);
  EXPECT_EQ(fit.error(), 50);
}

TEST(ClockFit, GoesStraightBetweenReadingsAndOnBeyond) {
  // 20 ppm, then 40.
  const ClockFit fit({{30 * kSecond, 1000 + 1'200'000, 100},
                      {10 * kSecond, 1000 + 200'000, 300},
                      {0 * kSecond, 1000, 200},
                      {20 * kSecond, 1000 + 600'000, 100}});
  EXPECT_DOUBLE_EQ(fit.offset(0), 1000);
  EXPECT_DOUBLE_EQ(fit.offset(5 * kSecond), 1000 + 100'000);
  EXPECT_DOUBLE_EQ(fit.offset(10 * kSecond), 1000 + 200'000);
  EXPECT_DOUBLE_EQ(fit.offset(15 * kSecond), 1000 + 400'000);
  EXPECT_DOUBLE_EQ(fit.drift(), 40);
  EXPECT_DOUBLE_EQ(fit.offset(40 * kSecond), 1000 + 1'600'000);
  EXPECT_DOUBLE_EQ(fit.offset(-10 * kSecond), 1000 - 400'000);
  EXPECT_EQ(fit.error(), 300);
}

// A rank that was not running while it was asked: half a second may have passed.
TEST(ClockFit, LeavesOutWhatIsKnownBetter) {
  const ClockFit fit(
      {{0, 0, 1000}, {10 * kSecond, 400'000'000, 500'000'000}, {20 * kSecond, 100, 1000}});
  EXPECT_DOUBLE_EQ(fit.offset(10 * kSecond), 50);
  EXPECT_EQ(fit.error(), 1000);
  // A clock may have drifted by 100 ppm, so this one does tell something.
  const ClockFit other({{0, 0, 1000}, {100 * kSecond, 9'000'000, 9'000'000}});
  EXPECT_DOUBLE_EQ(other.offset(100 * kSecond), 9'000'000);
}

// Two readings that are off in different directions are no drift.
TEST(ClockFit, TakesNoDriftFromAShortTime) {
  const ClockFit fit({{0, -5000, 9000}, {kSecond, 5000, 9000}});
  EXPECT_DOUBLE_EQ(fit.offset(kSecond / 2), 0);
  EXPECT_DOUBLE_EQ(fit.offset(100 * kSecond), 5000);
  EXPECT_DOUBLE_EQ(fit.offset(-100 * kSecond), -5000);
  EXPECT_EQ(fit.drift(), 0);
}

TEST(ClockFit, TheSameMomentTwiceDoesNoHarm) {
  const ClockFit fit({{kSecond, 10, 5}, {kSecond, 12, 5}, {2 * kSecond, 10, 5}});
  EXPECT_NEAR(fit.offset(kSecond + kSecond / 2), 10, 2);
}

}  // namespace
}  // namespace kolo::timeline
