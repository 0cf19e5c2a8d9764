#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "core/clock.hpp"
#include "core/thread_annotations.hpp"
#include "engine/backoff.hpp"
#include "engine/operation.hpp"
#include "engine/parking.hpp"

namespace kolo {

// The engine, as the Driver sees it. Only the thread that drives calls these functions.
class Driven {
 public:
  virtual ~Driven() = default;
  Driven() = default;
  Driven(const Driven&) = delete;
  Driven& operator=(const Driven&) = delete;

  // Runs one round of the loop. Returns whether something moved.
  virtual bool turn() = 0;
  // Called when nothing moved.
  virtual void watch_timers() = 0;

  enum class State : std::uint8_t {
    kIdle,     // nothing to do until something is submitted, or another rank does something
    kBusy,     // operations are under way
    kLeaving,  // the engine shuts down, and waits for other ranks
    kBroken    // a peer is lost: no operation advances
  };
  virtual State state() const = 0;
  // Whether the engine has shut down. Then there is nothing to drive, and no state.
  virtual bool has_ended() const = 0;
  // While leaving, when nothing moved: whether the engine's thread may end.
  virtual bool may_end() = 0;
  // While idle: whether messages of other ranks may arrive without waking this rank.
  virtual bool coordinates_messages() const = 0;
  // While idle: the time of the next check, or nothing.
  virtual std::optional<Clock::time_point> next_watch() const = 0;
};

// Owns the question which thread drives the engine. One thread at a time does: the engine's own
// thread; in its place, a thread of the program that waits for an operation; or for a moment a
// thread that submits one.
class Driver {
 public:
  // `submitters_drive`: for programs whose threads take all cores. The engine's own thread could
  // only run in the place of one of them. `doorbell`: see Parking.
  Driver(Driven& engine, const Backoff::Options& backoff, bool submitters_drive,
         std::shared_ptr<shm::Doorbell::Lines> doorbell);

  // Held by the thread that drives.
  Mutex& seat() const KOLO_RETURNS(seat_) { return seat_; }
  // Wakes the thread that drives.
  Parking& parking() { return parking_; }

  // Starts the engine's thread, which ends when Driven::may_end() says so.
  void start();
  // Whether that thread was started and not joined yet.
  bool joinable() const { return thread_.joinable(); }
  // Returns when that thread has ended.
  void join() { thread_.join(); }

  // --- a thread of the program ---
  // After a submission. `packed`: the tensor now lies in its bucket.
  void submitted(bool packed) KOLO_EXCLUDES(seat_);
  // Lets the calling thread drive from now on, until end(). It must call drive() soon. False if
  // another thread of the program drives already.
  bool begin() { return parking_.begin(); }
  // Drives until the operation has ended or the deadline has passed. An exception ends the process,
  // as it does on the engine's own thread, because half a turn leaves an unknown state. `ends`: as
  // if end() were called after it.
  void drive(const Operation& operation, std::optional<Clock::time_point> deadline,
             bool ends) noexcept KOLO_EXCLUDES(seat_);
  void end() noexcept KOLO_EXCLUDES(seat_);
  // Waits while another thread drives. Returns false if the deadline has passed.
  bool wait(const Operation& operation, std::optional<Clock::time_point> deadline);

  // Runs a function while no thread drives: it may call MPI, even if MPI lets in one thread at a
  // time. The function must not wait for other ranks.
  void visit(const std::function<void()>& function) KOLO_EXCLUDES(seat_);

  // --- the thread that drives ---
  // Called at the first operation on a device.
  void leave_computing_to_device() KOLO_REQUIRES(seat_);

 private:
  bool is_time_to_help(bool packed);
  void help() noexcept KOLO_EXCLUDES(seat_);
  void run() KOLO_EXCLUDES(seat_);
  bool run_one_turn(std::optional<Clock::time_point>& sleep_until, bool& sleeps)
      KOLO_EXCLUDES(seat_);
  void leave_seat() KOLO_REQUIRES(seat_);
  void let_visitors_in() KOLO_REQUIRES(seat_);
  void wait_for_visitors() const;
  void rest_idle(std::optional<Clock::time_point>& sleep_until, bool& sleeps) KOLO_REQUIRES(seat_);

  Driven& engine_;
  Parking parking_;
  std::atomic<std::uint32_t> packed_{0};  // submissions whose tensor was packed into its bucket
  std::atomic<bool> submitters_drive_;    // until a device computes, which leaves cores free
  std::atomic<int> visitors_{0};
  mutable Mutex seat_;
  Backoff backoff_ KOLO_GUARDED_BY(seat_);
  Clock::duration look_interval_ KOLO_GUARDED_BY(seat_);  // of the engine's thread, if others help
  bool moved_ KOLO_GUARDED_BY(seat_) = false;  // something, since its thread last listened
  std::thread thread_;                         // last: it uses all the others
};

}  // namespace kolo
