#include "engine/driver.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

namespace kolo {
namespace {

using std::chrono::milliseconds;

// Returns how long the engine's thread sleeps with a deadline in a millisecond.
Clock::duration parked(Driver& driver) {
  const Clock::time_point begin = Clock::now();
  driver.park(begin + milliseconds(1));
  return Clock::now() - begin;
}

TEST(Driver, HelpersPutTheAlarmOffForAWhile) {
  Driver driver(std::chrono::hours(1), nullptr);
  EXPECT_GE(parked(driver), milliseconds(1));
  driver.helped();
  EXPECT_GE(parked(driver), milliseconds(51));
}

TEST(Driver, HelpersDoNotPutTheAlarmOffForWhoeverIsBlocked) {
  Driver driver(std::chrono::hours(1), nullptr);
  const Driver::Waiter waiter(driver);
  driver.park(std::nullopt);  // the waiter has woken it
  Clock::duration shortest = milliseconds(51);
  for (int i = 0; i < 100; ++i) {  // the machine may be busy
    driver.helped();
    shortest = std::min(shortest, parked(driver));
  }
  EXPECT_LT(shortest, milliseconds(51));
}

// The blocked thread is about to see that its own operation is over, and does not look after
// others.
TEST(Driver, ASubmissionIsNotSleptOverWhileSomebodyIsBlocked) {
  Driver driver(milliseconds(5), nullptr);
  const Driver::Waiter waiter(driver);
  driver.park(std::nullopt);  // the waiter has woken it
  parked(driver);             // leaves an alarm that has passed
  driver.call_for_submission(false);
  driver.park(std::nullopt);  // or the test ends by its time limit
}

TEST(Driver, OtherRanksWakeWhoListens) {
  const auto lines = std::make_shared<shm::Doorbell::Lines>();
  Driver driver(std::nullopt, lines);
  driver.listen();
  shm::Doorbell::call(*lines);
  driver.park(std::nullopt);
  std::atomic<bool> called{false};
  std::thread other([&] {
    while (lines->listens == 0) std::this_thread::yield();
    std::this_thread::sleep_for(milliseconds(20));
    called = true;
    shm::Doorbell::call(*lines);
  });
  driver.listen();
  driver.park(std::nullopt);
  EXPECT_TRUE(called) << "an old call counts no more";
  other.join();
}

// A deadline that is far away, for timers, does not make it deaf.
TEST(Driver, OtherRanksWakeWhoHasAFarDeadline) {
  for (const bool patient : {true, false}) {
    const auto lines = std::make_shared<shm::Doorbell::Lines>();
    Driver driver(patient ? std::optional(milliseconds(1)) : std::nullopt, lines);
    std::thread other([&] {
      while (lines->listens == 0) std::this_thread::yield();
      std::this_thread::sleep_for(milliseconds(20));
      shm::Doorbell::call(*lines);
    });
    driver.listen();
    const Clock::time_point begin = Clock::now();
    driver.park(begin + std::chrono::seconds(20));
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(10));
    other.join();
  }
  Driver driver(std::nullopt, std::make_shared<shm::Doorbell::Lines>());
  driver.listen();
  const Clock::time_point deadline = Clock::now() + milliseconds(80);
  driver.park(deadline);
  EXPECT_GE(Clock::now(), deadline) << "nobody has called";
}

TEST(Driver, WhileSomebodyDrivesNobodyHasToCall) {
  for (const bool first : {true, false}) {  // begins to drive before the other listens
    const auto lines = std::make_shared<shm::Doorbell::Lines>();
    Driver driver(std::nullopt, lines);
    if (first) {
      ASSERT_TRUE(driver.begin());
    }
    driver.listen();
    if (!first) {
      ASSERT_TRUE(driver.begin());
    }
    std::thread replacement([&] {
      const Clock::time_point deadline = Clock::now() + std::chrono::seconds(20);
      while (lines->listens != 0 && Clock::now() < deadline) std::this_thread::yield();
      EXPECT_EQ(lines->listens, 0U);
      driver.end(false);
    });
    driver.park(std::nullopt);  // looks again after a while, to listen anew
    replacement.join();
  }
}

// A call that finds nobody asleep is not lost: rest() returns at once, and end() wakes the engine's
// thread, which would otherwise sleep for 50 ms.
TEST(Driver, ACallIsNotLost) {
  Clock::duration shortest = milliseconds(50);
  for (int i = 0; i < 20; ++i) {  // the machine may be busy
    Driver driver(std::nullopt, nullptr);
    ASSERT_TRUE(driver.begin());
    driver.about_to_take();
    driver.call_for_submission(true);  // quietly, but somebody drives already
    const Clock::time_point begin = Clock::now();
    driver.rest(begin + std::chrono::seconds(20));
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(10));
    driver.end(false);
    const Clock::time_point ended = Clock::now();
    driver.park(std::nullopt);
    shortest = std::min(shortest, Clock::now() - ended);
  }
  EXPECT_LT(shortest, milliseconds(40));
}

// Somebody calls the engine's thread, and another thread begins to drive before it runs. If that
// thread has nothing to do, the call still counts.
TEST(Driver, ACallBeforeAnotherThreadDrivesIsNotLost) {
  Driver driver(std::nullopt, nullptr);
  driver.call();
  ASSERT_TRUE(driver.begin());
  driver.end(false);
  const Clock::time_point begin = Clock::now();
  driver.park(begin + std::chrono::seconds(20));
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(10));
}

// A call that was answered does not wake the engine's thread later.
TEST(Driver, AnAnsweredCallDoesNotWakeTheEnginesThread) {
  Driver driver(std::nullopt, nullptr);
  driver.call_for_submission(true);
  ASSERT_TRUE(driver.begin());
  driver.about_to_take();
  driver.end(false);
  const Clock::time_point deadline = Clock::now() + milliseconds(30);
  driver.park(deadline);
  EXPECT_GE(Clock::now(), deadline);
}

TEST(Driver, WorkThatIsLeftWakesTheEnginesThread) {
  Driver driver(std::nullopt, nullptr);
  ASSERT_TRUE(driver.begin());
  EXPECT_FALSE(driver.begin()) << "one thread at a time";
  driver.end(true);
  driver.park(std::nullopt);  // or the test ends by its time limit
}

}  // namespace
}  // namespace kolo
