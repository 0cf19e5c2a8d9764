#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <utility>

#include "collectives/shm/doorbell.hpp"
#include "core/clock.hpp"
#include "core/thread_annotations.hpp"

namespace kolo {

// Lets the thread that drives the engine sleep while there is nothing to do, and wakes it: the
// engine's own thread, or in its place a thread of the program that waits for an operation. Locks
// itself.
class Parking {
 public:
  // `patience`: how long the engine's thread leaves submissions to the submitting threads, see
  // helped(); without a value it takes them at once. `doorbell`: where other ranks wake this rank's
  // engine, or null.
  Parking(std::optional<Clock::duration> patience, std::shared_ptr<shm::Doorbell::Lines> doorbell)
      : patience_(patience), doorbell_(std::move(doorbell)) {}

  // --- any thread, after it has put something into the mailbox ---
  // Wakes the thread that drives. `quietly`: it is the calling thread, between begin() and end().
  void call(bool quietly = false) KOLO_EXCLUDES(mutex_);
  // For submissions: the engine's thread may leave them to submitting threads for some time.
  // `quietly`: does not wake it, because the caller is about to wait, and will drive. The caller
  // holds the mailbox's lock, under which it has entered the submission.
  void call_for_submission(bool quietly) KOLO_EXCLUDES(mutex_);

  // --- a thread of the program ---
  // Lets the calling thread drive in place of the engine's thread, which then sleeps. False if
  // another thread does so already.
  bool begin() KOLO_EXCLUDES(mutex_);
  // `more`: wakes the engine's thread, because work is left.
  void end(bool more) KOLO_EXCLUDES(mutex_);
  // Between begin() and end(): sleeps until call(), or until the deadline passes.
  void rest(Clock::time_point deadline) KOLO_EXCLUDES(mutex_);
  // Notes that a submitting thread has advanced everything that could advance, so that the engine's
  // thread need not look for some time.
  void helped() { helped_.store(Clock::now().time_since_epoch(), std::memory_order_relaxed); }
  // Marks a thread of the program as blocked for as long as this lives: its core is free for the
  // engine.
  class Waiter {
   public:
    explicit Waiter(Parking& parking);
    ~Waiter();
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;

   private:
    Parking& parking_;
  };

  // --- the thread that drives ---
  // Called before the mailbox is emptied: the entries in it need no further call.
  void about_to_take() { called_.store(false, std::memory_order_relaxed); }
  bool somebody_waits() const KOLO_EXCLUDES(mutex_);
  // Wakes the engine's thread for each submission from now on.
  void lose_patience() KOLO_EXCLUDES(mutex_);

  // --- the engine's thread ---
  // Whether a thread of the program drives the engine.
  bool is_replaced() const { return replaced_.load(std::memory_order_relaxed); }
  // From now on, until the engine's thread has parked, writes of other ranks wake it. The caller
  // must look once more for what they wrote before.
  void listen() { doorbell_.listen(); }
  void stop_listening() { doorbell_.stop_listening(); }
  // Sleeps while a thread of the program drives. Otherwise sleeps until call(), until a
  // submission is `patience` old, another rank rings the doorbell, or the deadline passes. helped()
  // postpones the deadline.
  void park(std::optional<Clock::time_point> deadline) KOLO_EXCLUDES(mutex_);

 private:
  void wake() KOLO_REQUIRES(mutex_);
  void set_alarm(Clock::time_point then) KOLO_REQUIRES(mutex_);
  void prepare_alarm(std::optional<Clock::time_point> deadline) KOLO_REQUIRES(mutex_);
  Clock::time_point time_of_alarm() const KOLO_REQUIRES(mutex_);
  bool is_time_to_turn(Clock::time_point now) const KOLO_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::optional<Clock::duration> patience_ KOLO_GUARDED_BY(mutex_);
  shm::Doorbell doorbell_;             // wakes the engine's thread
  CondVar condition_;                  // wakes the thread that drives in its place
  std::atomic<bool> replaced_{false};  // changed under the lock
  std::atomic<bool> called_{false};    // the mailbox may have entries that were not taken
  std::atomic<Clock::duration> helped_{Clock::duration::zero()};  // since the clock's epoch
  int waiters_ KOLO_GUARDED_BY(mutex_) = 0;
  bool wake_ KOLO_GUARDED_BY(mutex_) = false;
  // There were submissions since the engine's thread last slept. A submitting thread may have taken
  // them out already, but their work goes on.
  bool submitted_ KOLO_GUARDED_BY(mutex_) = false;
  // When the engine's thread ends its sleep, unless helped() was called; without a value it does
  // not wake by itself.
  std::optional<Clock::time_point> alarm_ KOLO_GUARDED_BY(mutex_);
};

}  // namespace kolo
