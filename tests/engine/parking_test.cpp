#include "engine/parking.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

namespace kolo {
namespace {

using std::chrono::milliseconds;

// Returns how long the engine's thread sleeps with a deadline in a millisecond.
Clock::duration parked(Parking& parking) {
  const Clock::time_point begin = Clock::now();
  parking.park(begin + milliseconds(1));
  return Clock::now() - begin;
}

TEST(Parking, HelpersPutTheAlarmOffForAWhile) {
  Parking parking(std::chrono::hours(1), nullptr);
  EXPECT_GE(parked(parking), milliseconds(1));
  parking.helped();
  EXPECT_GE(parked(parking), milliseconds(51));
}

TEST(Parking, HelpersDoNotPutTheAlarmOffForWhoeverIsBlocked) {
  Parking parking(std::chrono::hours(1), nullptr);
  const Parking::Waiter waiter(parking);
  parking.park(std::nullopt);  // the waiter has woken it
  Clock::duration shortest = milliseconds(51);
  for (int i = 0; i < 100; ++i) {  // the machine may be busy
    parking.helped();
    shortest = std::min(shortest, parked(parking));
  }
  EXPECT_LT(shortest, milliseconds(51));
}

// The blocked thread is about to see that its own operation is over, and does not look after
// others.
TEST(Parking, ASubmissionIsNotSleptOverWhileSomebodyIsBlocked) {
  Parking parking(milliseconds(5), nullptr);
  const Parking::Waiter waiter(parking);
  parking.park(std::nullopt);  // the waiter has woken it
  parked(parking);             // leaves an alarm that has passed
  parking.call_for_submission(false);
  parking.park(std::nullopt);  // or the test ends by its time limit
}

TEST(Parking, OtherRanksWakeWhoListens) {
  const auto lines = std::make_shared<shm::Doorbell::Lines>();
  Parking parking(std::nullopt, lines);
  parking.listen();
  shm::Doorbell::call(*lines);
  parking.park(std::nullopt);
  std::atomic<bool> called{false};
  std::thread other([&] {
    while (lines->listens == 0) std::this_thread::yield();
    std::this_thread::sleep_for(milliseconds(20));
    called = true;
    shm::Doorbell::call(*lines);
  });
  parking.listen();
  parking.park(std::nullopt);
  EXPECT_TRUE(called) << "an old call counts no more";
  other.join();
}

// A deadline that is far away, for timers, does not make it deaf.
TEST(Parking, OtherRanksWakeWhoHasAFarDeadline) {
  for (const bool patient : {true, false}) {
    const auto lines = std::make_shared<shm::Doorbell::Lines>();
    Parking parking(patient ? std::optional(milliseconds(1)) : std::nullopt, lines);
    std::thread other([&] {
      while (lines->listens == 0) std::this_thread::yield();
      std::this_thread::sleep_for(milliseconds(20));
      shm::Doorbell::call(*lines);
    });
    parking.listen();
    const Clock::time_point begin = Clock::now();
    parking.park(begin + std::chrono::seconds(20));
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(10));
    other.join();
  }
  Parking parking(std::nullopt, std::make_shared<shm::Doorbell::Lines>());
  parking.listen();
  const Clock::time_point deadline = Clock::now() + milliseconds(80);
  parking.park(deadline);
  EXPECT_GE(Clock::now(), deadline) << "nobody has called";
}

TEST(Parking, WhileSomebodyDrivesNobodyHasToCall) {
  for (const bool first : {true, false}) {  // begins to drive before the other listens
    const auto lines = std::make_shared<shm::Doorbell::Lines>();
    Parking parking(std::nullopt, lines);
    if (first) {
      ASSERT_TRUE(parking.begin());
    }
    parking.listen();
    if (!first) {
      ASSERT_TRUE(parking.begin());
    }
    std::thread replacement([&] {
      const Clock::time_point deadline = Clock::now() + std::chrono::seconds(20);
      while (lines->listens != 0 && Clock::now() < deadline) std::this_thread::yield();
      EXPECT_EQ(lines->listens, 0U);
      parking.end(false);
    });
    parking.park(std::nullopt);  // looks again after a while, to listen anew
    replacement.join();
  }
}

// A call that finds nobody asleep is not lost: rest() returns at once, and end() wakes the engine's
// thread, which would otherwise sleep for 50 ms.
TEST(Parking, ACallIsNotLost) {
  Clock::duration shortest = milliseconds(50);
  for (int i = 0; i < 20; ++i) {  // the machine may be busy
    Parking parking(std::nullopt, nullptr);
    ASSERT_TRUE(parking.begin());
    parking.about_to_take();
    parking.call_for_submission(true);  // quietly, but somebody drives already
    const Clock::time_point begin = Clock::now();
    parking.rest(begin + std::chrono::seconds(20));
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(10));
    parking.end(false);
    const Clock::time_point ended = Clock::now();
    parking.park(std::nullopt);
    shortest = std::min(shortest, Clock::now() - ended);
  }
  EXPECT_LT(shortest, milliseconds(40));
}

// Somebody calls the engine's thread, and another thread begins to drive before it runs. If that
// thread has nothing to do, the call still counts.
TEST(Parking, ACallBeforeAnotherThreadDrivesIsNotLost) {
  Parking parking(std::nullopt, nullptr);
  parking.call();
  ASSERT_TRUE(parking.begin());
  parking.end(false);
  const Clock::time_point begin = Clock::now();
  parking.park(begin + std::chrono::seconds(20));
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(10));
}

// A call that was answered does not wake the engine's thread later.
TEST(Parking, AnAnsweredCallDoesNotWakeTheEnginesThread) {
  Parking parking(std::nullopt, nullptr);
  parking.call_for_submission(true);
  ASSERT_TRUE(parking.begin());
  parking.about_to_take();
  parking.end(false);
  const Clock::time_point deadline = Clock::now() + milliseconds(30);
  parking.park(deadline);
  EXPECT_GE(Clock::now(), deadline);
}

TEST(Parking, WorkThatIsLeftWakesTheEnginesThread) {
  Parking parking(std::nullopt, nullptr);
  ASSERT_TRUE(parking.begin());
  EXPECT_FALSE(parking.begin()) << "one thread at a time";
  parking.end(true);
  parking.park(std::nullopt);  // or the test ends by its time limit
}

}  // namespace
}  // namespace kolo
