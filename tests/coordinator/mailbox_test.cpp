#include "coordinator/mailbox.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

namespace kolo {
namespace {

using std::chrono::milliseconds;

// How long the engine's thread sleeps that wants to for a millisecond.
Clock::duration parked(Mailbox& mailbox) {
  const Clock::time_point begin = Clock::now();
  mailbox.park(begin + milliseconds(1));
  return Clock::now() - begin;
}

TEST(Mailbox, HelpersPutTheAlarmOffForAWhile) {
  Mailbox mailbox(std::chrono::hours(1), nullptr);
  EXPECT_GE(parked(mailbox), milliseconds(1));
  mailbox.helped();
  EXPECT_GE(parked(mailbox), milliseconds(51));
}

TEST(Mailbox, HelpersDoNotPutTheAlarmOffForWhoeverIsBlocked) {
  Mailbox mailbox(std::chrono::hours(1), nullptr);
  const Mailbox::Waiter waiter(mailbox);
  mailbox.park(std::nullopt);  // the waiter has woken it
  Clock::duration shortest = milliseconds(51);
  for (int i = 0; i < 100; ++i) {  // the machine may be busy
    mailbox.helped();
    shortest = std::min(shortest, parked(mailbox));
  }
  EXPECT_LT(shortest, milliseconds(51));
}

std::shared_ptr<Operation> named(const std::string& name) {
  auto operation = std::make_shared<Operation>();
  operation->name = name;
  return operation;
}

// Its waiter is about to see that its own operation is over, and does not look after others'.
TEST(Mailbox, ASubmissionIsNotSleptOverWhileSomebodyIsBlocked) {
  Mailbox mailbox(milliseconds(5), nullptr);
  const Mailbox::Waiter waiter(mailbox);
  mailbox.park(std::nullopt);  // the waiter has woken it
  parked(mailbox);             // leaves an alarm that has passed
  bool packed = false;
  ASSERT_TRUE(mailbox.submit(named("x"), packed).is_ok());
  mailbox.park(std::nullopt);  // or the test ends by its time limit
}

// As the engine does when there is nothing to do.
void listen_and_park(Mailbox& mailbox) {
  mailbox.listen();
  mailbox.park(std::nullopt);
}

TEST(Mailbox, OtherRanksWakeWhoListens) {
  const auto lines = std::make_shared<shm::Doorbell::Lines>();
  Mailbox mailbox(std::nullopt, lines);
  mailbox.listen();
  shm::Doorbell::call(*lines);
  mailbox.park(std::nullopt);
  std::thread other([&] {
    while (lines->listens == 0) std::this_thread::yield();
    std::this_thread::sleep_for(milliseconds(20));
    shm::Doorbell::call(*lines);
  });
  listen_and_park(mailbox);
  other.join();
  EXPECT_GE(parked(mailbox), milliseconds(1)) << "an old call counts no more";
}

TEST(Mailbox, WhileSomebodyDrivesNobodyHasToCall) {
  for (const bool first : {true, false}) {  // begins to drive before the other listens
    const auto lines = std::make_shared<shm::Doorbell::Lines>();
    Mailbox mailbox(std::nullopt, lines);
    if (first) {
      ASSERT_TRUE(mailbox.begin_driving());
    }
    mailbox.listen();
    if (!first) {
      ASSERT_TRUE(mailbox.begin_driving());
    }
    std::thread driver([&] {
      std::this_thread::sleep_for(milliseconds(20));
      EXPECT_EQ(lines->listens, 0U);
      mailbox.end_driving(false);
    });
    mailbox.park(std::nullopt);  // looks again after a while, to listen anew
    driver.join();
  }
}

// Its waiter begins to wait when it is over: that others of its step are waited for has to be known
// all the same.
TEST(Mailbox, ABoundaryIsToldForAnOperationThatIsDone) {
  Mailbox mailbox(std::nullopt, nullptr);
  const auto operation = named("x");
  bool packed = false;
  ASSERT_TRUE(mailbox.submit(operation, packed).is_ok());
  std::vector<Mailbox::Entry> entries;
  mailbox.take(entries);
  ASSERT_EQ(entries.size(), 1U);
  mailbox.release({operation.get()});
  operation->complete(Status::ok(), false);
  mailbox.wanted(operation);
  mailbox.take(entries);
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].kind, Mailbox::Entry::Kind::kBoundary);
  mailbox.wanted(operation);
  mailbox.take(entries);
  EXPECT_TRUE(entries.empty());
}

}  // namespace
}  // namespace kolo
