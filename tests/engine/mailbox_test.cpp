#include "engine/mailbox.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
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

TEST(Mailbox, OtherRanksWakeWhoListens) {
  const auto lines = std::make_shared<shm::Doorbell::Lines>();
  Mailbox mailbox(std::nullopt, lines);
  mailbox.listen();
  shm::Doorbell::call(*lines);
  mailbox.park(std::nullopt);
  std::atomic<bool> called{false};
  std::thread other([&] {
    while (lines->listens == 0) std::this_thread::yield();
    std::this_thread::sleep_for(milliseconds(20));
    called = true;
    shm::Doorbell::call(*lines);
  });
  mailbox.listen();
  mailbox.park(std::nullopt);
  EXPECT_TRUE(called) << "an old call counts no more";
  other.join();
}

// A deadline that is far away, for timers, does not make it deaf.
TEST(Mailbox, OtherRanksWakeWhoHasAFarDeadline) {
  for (const bool patient : {true, false}) {
    const auto lines = std::make_shared<shm::Doorbell::Lines>();
    Mailbox mailbox(patient ? std::optional(milliseconds(1)) : std::nullopt, lines);
    std::thread other([&] {
      while (lines->listens == 0) std::this_thread::yield();
      std::this_thread::sleep_for(milliseconds(20));
      shm::Doorbell::call(*lines);
    });
    mailbox.listen();
    const Clock::time_point begin = Clock::now();
    mailbox.park(begin + std::chrono::seconds(20));
    EXPECT_LT(Clock::now() - begin, std::chrono::seconds(10));
    other.join();
  }
  Mailbox mailbox(std::nullopt, std::make_shared<shm::Doorbell::Lines>());
  mailbox.listen();
  const Clock::time_point deadline = Clock::now() + milliseconds(80);
  mailbox.park(deadline);
  EXPECT_GE(Clock::now(), deadline) << "nobody has called";
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
      const Clock::time_point deadline = Clock::now() + std::chrono::seconds(20);
      while (lines->listens != 0 && Clock::now() < deadline) std::this_thread::yield();
      EXPECT_EQ(lines->listens, 0U);
      mailbox.end_driving(false);
    });
    mailbox.park(std::nullopt);  // looks again after a while, to listen anew
    driver.join();
  }
}

// Of a tensor in a bucket, which now has the name of something else, as many bytes in its
// description, and no memory.
TEST(Mailbox, OnlyAnAllreduceIsPackedIntoABucket) {
  Mailbox mailbox(std::nullopt, nullptr);
  const auto buffer = std::make_shared<std::byte[]>(64);
  mailbox.set_slot(0, "x", Slot{buffer, 0, 16, {7, 0}});
  for (const OpKind kind : {OpKind::kAllgather, OpKind::kBroadcast, OpKind::kAllreduce}) {
    const auto operation = named("x");
    std::vector<float> values(4);
    operation->descriptor.kind = kind;
    operation->descriptor.tensors = {{DType::kFloat32, {4}}};
    operation->tensors = {{kind == OpKind::kAllgather ? nullptr : values.data(), 0}};
    bool packed = false;
    ASSERT_TRUE(mailbox.submit(operation, packed).is_ok());
    EXPECT_EQ(packed, kind == OpKind::kAllreduce);
    mailbox.release({operation.get()});
  }
}

TEST(Mailbox, ANameIsBookedByOneOperationOfAKind) {
  Mailbox mailbox(std::nullopt, nullptr);
  bool packed = false;
  const auto allreduce = named("x");
  const auto broadcast = named("x");
  broadcast->descriptor.kind = OpKind::kBroadcast;
  EXPECT_TRUE(mailbox.submit(allreduce, packed).is_ok());
  EXPECT_TRUE(mailbox.submit(broadcast, packed).is_ok());
  EXPECT_EQ(mailbox.submit(named("x"), packed).code(), StatusCode::kDuplicateName);
  mailbox.release({broadcast.get()});
  EXPECT_EQ(mailbox.submit(named("x"), packed).code(), StatusCode::kDuplicateName);
  mailbox.release({allreduce.get()});
  EXPECT_TRUE(mailbox.submit(named("x"), packed).is_ok());
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
