#include "collectives/shm/doorbell.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

namespace kolo::shm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Doorbell, AWaitEndsWithARing) {
  Doorbell doorbell(nullptr);
  const std::uint32_t rings = doorbell.rings();
  std::thread other([&] {
    std::this_thread::sleep_for(milliseconds(20));
    doorbell.ring();
  });
  int returns = 0;
  for (; doorbell.rings() == rings; ++returns) doorbell.wait(rings, std::nullopt);
  other.join();
  EXPECT_LT(returns, 10) << "but for signals, it sleeps";
}

TEST(Doorbell, ARingBeforeTheWaitIsNotLost) {
  Doorbell doorbell(nullptr);
  const std::uint32_t rings = doorbell.rings();
  doorbell.ring();
  doorbell.wait(rings, std::nullopt);
}

TEST(Doorbell, AWaitEndsAtItsDeadline) {
  Doorbell doorbell(nullptr);
  for (const int wait : {0, 30}) {
    const Clock::time_point deadline = Clock::now() + milliseconds(wait);
    int returns = 0;
    for (; Clock::now() < deadline; ++returns) doorbell.wait(doorbell.rings(), deadline);
    EXPECT_LT(returns, 10) << "but for signals, it sleeps";
    doorbell.wait(doorbell.rings(), deadline);
  }
}

TEST(Doorbell, OnlyWhoListensIsCalled) {
  const auto lines = std::make_shared<Doorbell::Lines>();
  Doorbell doorbell(lines);
  Doorbell::call(*lines);
  EXPECT_EQ(doorbell.rings(), 0U);
  EXPECT_FALSE(doorbell.called());
  doorbell.listen();
  EXPECT_FALSE(doorbell.called());
  Doorbell::call(*lines);
  EXPECT_EQ(doorbell.rings(), 1U);
  EXPECT_TRUE(doorbell.called());
  doorbell.listen();
  EXPECT_FALSE(doorbell.called()) << "that was before";
  doorbell.stop_listening();
  Doorbell::call(*lines);
  EXPECT_EQ(doorbell.rings(), 1U);
}

TEST(Doorbell, OneOfAnEarlierSessionDoesNotEndTheListeningOfThis) {
  const auto lines = std::make_shared<Doorbell::Lines>();
  Doorbell before(lines);
  before.listen();
  before.stop_listening();
  Doorbell now(lines);
  now.listen();
  EXPECT_FALSE(before.listens());
  before.stop_listening();
  Doorbell::call(*lines);
  EXPECT_TRUE(now.called());
}

// Who writes does not know when the other listens, sleeps, or is about to.
TEST(Doorbell, NothingThatIsWrittenIsSleptOver) {
  constexpr int kMessages = 20000;
  const Clock::time_point enough = Clock::now() + seconds(2);
  const auto lines = std::make_shared<Doorbell::Lines>();
  Doorbell doorbell(lines);
  std::atomic<int> written{0};
  std::atomic<int> read{0};
  std::atomic<bool> over{false};
  std::thread writer([&] {
    for (int message = 1; message <= kMessages && !over; ++message) {
      while (read.load() != message - 1 && !over) std::this_thread::yield();
      for (int i = 0; i < message % 64; ++i) std::atomic_signal_fence(std::memory_order_seq_cst);
      written.store(message, std::memory_order_release);
      Doorbell::call(*lines);
    }
  });
  for (int message = 1; message <= kMessages && !over; ++message) {
    if (Clock::now() > enough) over = true;
    for (int i = 0; i < message % 97; ++i) std::atomic_signal_fence(std::memory_order_seq_cst);
    const Clock::time_point deadline = Clock::now() + seconds(20);
    while (written.load(std::memory_order_acquire) != message && !over) {
      const std::uint32_t rings = doorbell.rings();
      doorbell.listen();
      if (written.load(std::memory_order_acquire) != message && !doorbell.called())
        doorbell.wait(rings, deadline);
      doorbell.stop_listening();
      if (Clock::now() < deadline) continue;
      ADD_FAILURE() << "message " << message << " was slept over";
      over = true;
    }
    read.store(message);
  }
  writer.join();
}

}  // namespace
}  // namespace kolo::shm
