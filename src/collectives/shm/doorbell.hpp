// Wakes the engine's thread of a rank. Threads of its own process can do so and, if ranks share
// memory and the thread has nothing else to do, other ranks too.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "core/clock.hpp"

namespace kolo::shm {

class Doorbell {
 public:
  // In the rank's own segment; zero at first.
  struct Lines {
    alignas(64) std::atomic<std::uint32_t> rings;    // a futex
    std::atomic<std::uint32_t> called;               // 1: called since it began to listen
    alignas(64) std::atomic<std::uint32_t> listens;  // to calls; writers read it each time
  };

  // `shared`: the lines that other ranks see; null: no other rank calls.
  explicit Doorbell(std::shared_ptr<Lines> shared)
      : lines_(shared != nullptr ? std::move(shared) : std::make_shared<Lines>()) {}
  Doorbell(const Doorbell&) = delete;
  Doorbell& operator=(const Doorbell&) = delete;

  // --- this process, any thread ---
  void ring();
  // Whether this object listens. An object of an earlier session with the same lines does not
  // count.
  bool listens() const { return listens_.load(std::memory_order_relaxed); }
  void stop_listening();

  // --- the engine's thread ---
  std::uint32_t rings() const { return lines_->rings.load(std::memory_order_acquire); }
  // Sleeps until there are more rings than `rings`, or the deadline passes.
  void wait(std::uint32_t rings, std::optional<Clock::time_point> deadline);
  // From now on other ranks call this one. Whoever looks after this call sees what they wrote
  // before.
  void listen();
  bool called() const { return lines_->called.load(std::memory_order_acquire) != 0; }

  // --- another rank, which has written something ---
  // Wakes the rank if it listens.
  static void call(Lines& lines);

 private:
  const std::shared_ptr<Lines> lines_;
  std::atomic<bool> waits_{false};
  std::atomic<bool> listens_{false};
};

}  // namespace kolo::shm
