#include "engine/backoff.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace kolo {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr Clock::duration kSpin = milliseconds(20);

// What the wait comes to once it has lasted longer than spinning and yielding.
std::optional<Clock::duration> pause_after(Backoff& backoff, Clock::duration time, bool somebody) {
  backoff.pause(somebody);
  std::this_thread::sleep_for(time);
  return backoff.pause(somebody);
}

TEST(Backoff, SpinsWhereACoreIsFreeForIt) {
  Backoff backoff({kSpin, 2, 1});
  EXPECT_FALSE(backoff.pause(false));
  EXPECT_EQ(pause_after(backoff, kSpin + milliseconds(2), false), microseconds(250));
  backoff.reset();
  EXPECT_FALSE(backoff.pause(false));
}

TEST(Backoff, SleepsAtOnceBesideComputingThreads) {
  Backoff backoff({kSpin, 1, 1});
  EXPECT_EQ(backoff.pause(false), microseconds(50));
  EXPECT_EQ(pause_after(backoff, milliseconds(11), false), microseconds(250));
}

// A thread that waits for the engine does not compute.
TEST(Backoff, AThreadThatWaitsLeavesItsCore) {
  Backoff backoff({kSpin, 1, 1});
  EXPECT_FALSE(backoff.pause(true));
  EXPECT_TRUE(pause_after(backoff, kSpin + milliseconds(2), true));
}

// Ranks that share a core must give it to each other: they yield for a moment and then sleep.
TEST(Backoff, SpinsNeverWithLessThanACore) {
  Backoff backoff({kSpin, 0.5, 1});
  EXPECT_EQ(backoff.pause(false), microseconds(50));
  backoff.reset();
  EXPECT_FALSE(backoff.pause(true));
  EXPECT_TRUE(pause_after(backoff, kSpin + milliseconds(2), true));
}

}  // namespace
}  // namespace kolo
