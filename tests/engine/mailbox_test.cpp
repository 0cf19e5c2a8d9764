#include "engine/mailbox.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace kolo {
namespace {

std::shared_ptr<Operation> named(const std::string& name) {
  auto operation = std::make_shared<Operation>();
  operation->name = name;
  return operation;
}

// Of a tensor in a bucket, which now has the name of something else, as many bytes in its
// description, and no memory.
TEST(Mailbox, OnlyAnAllreduceIsPackedIntoABucket) {
  Parking parking(std::nullopt, nullptr);
  Mailbox mailbox(parking);
  const auto buffer = std::make_shared<std::byte[]>(64);
  mailbox.set_place(0, "x", BufferPlace{buffer, 0, 16, {7, 0}});
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
  Parking parking(std::nullopt, nullptr);
  Mailbox mailbox(parking);
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
  Parking parking(std::nullopt, nullptr);
  Mailbox mailbox(parking);
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

// How long the thread that drives goes on sleeping when it has emptied the mailbox, and another
// thread, or it itself, begins to wait.
Clock::duration sleep_after_a_wait(bool drives) {
  Parking parking(std::nullopt, nullptr);
  Mailbox mailbox(parking);
  const auto operation = named("x");
  bool packed = false;
  EXPECT_TRUE(mailbox.submit(operation, packed).is_ok());
  EXPECT_TRUE(parking.begin());
  std::vector<Mailbox::Entry> entries;
  mailbox.take(entries);
  const Clock::time_point begin = Clock::now();
  std::thread waits;
  if (drives) {
    mailbox.wanted(operation, true);
  } else {
    waits = std::thread([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      mailbox.wanted(operation);
    });
  }
  parking.rest(begin + std::chrono::seconds(30));
  const Clock::duration slept = Clock::now() - begin;
  if (waits.joinable()) waits.join();
  mailbox.take(entries);
  EXPECT_EQ(entries.back().kind, Mailbox::Entry::Kind::kWanted);
  return slept;
}

TEST(Mailbox, AWaitWakesTheThreadThatDrives) {
  EXPECT_LT(sleep_after_a_wait(false), std::chrono::seconds(20));
}

// It does not wake itself, but it must not sleep before it has looked into the mailbox.
TEST(Mailbox, AThreadThatDrivesTakesItsOwnWait) {
  EXPECT_LT(sleep_after_a_wait(true), std::chrono::seconds(20));
}

}  // namespace
}  // namespace kolo
