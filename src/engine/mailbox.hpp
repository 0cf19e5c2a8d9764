// Hands submissions and waits from the program's threads to the engine, in order. The thread that
// drives the engine takes them out, or sleeps until there are some: the engine's own thread, or a
// thread of the program that only waits. A small tensor with a place in a bucket is copied there by
// the submitting thread, which has the tensor in its cache.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "collectives/shm/doorbell.hpp"
#include "core/clock.hpp"
#include "core/operations.hpp"
#include "core/status.hpp"
#include "core/thread_annotations.hpp"
#include "engine/operation.hpp"

namespace kolo {

class Mailbox {
 public:
  // `patience`: how long the engine's thread leaves submissions to the submitting threads, see
  // helped(); without a value it takes them at once.
  // `doorbell`: where other ranks wake this rank's engine, or null.
  Mailbox(std::optional<Clock::duration> patience, std::shared_ptr<shm::Doorbell::Lines> doorbell)
      : patience_(patience), doorbell_(std::move(doorbell)) {}

  struct Entry {
    enum class Kind : std::uint8_t { kSubmit, kBoundary, kWanted, kShutdown };
    Kind kind = Kind::kSubmit;
    std::shared_ptr<Operation> operation;  // of kSubmit and kWanted
    int process_set = 0;                   // of kBoundary
  };

  // --- any thread ---
  // Hands the operation over. Fails if the mailbox is closed, or if an operation of the same kind
  // and name is in flight on this rank. If a refusal of the same kind and name is in flight, the
  // operation queues behind it, because the program cannot know how long that takes. `packed`: set
  // if the tensor now lies in its bucket. `quietly`: do not wake the engine's thread, because the
  // caller is about to wait.
  Status submit(const std::shared_ptr<Operation>& operation, bool& packed, bool quietly = false)
      KOLO_EXCLUDES(mutex_);
  // Notes that a thread begins to wait for the operation, or asks whether it is done.
  void wanted(const std::shared_ptr<Operation>& operation) KOLO_EXCLUDES(mutex_);
  // Lets all further submissions fail with `reason`, and enters kShutdown for the engine.
  void shut_down(const Status& reason) KOLO_EXCLUDES(mutex_);

  // Lets the calling thread drive in place of the engine's thread, which then sleeps. False if
  // another thread does so already.
  bool begin_driving() KOLO_EXCLUDES(mutex_);
  // `more`: wakes the engine's thread, because work is left.
  void end_driving(bool more) KOLO_EXCLUDES(mutex_);
  // Notes that a submitting thread has advanced everything that could advance, so that the engine's
  // thread need not look for some time.
  void helped() { helped_.store(Clock::now().time_since_epoch(), std::memory_order_relaxed); }
  // For the driving thread: sleeps until there is an entry, or the deadline passes.
  void rest(Clock::time_point deadline) KOLO_EXCLUDES(mutex_);

  // Marks a thread of the program as blocked for as long as this lives: its core is free for the
  // engine.
  class Waiter {
   public:
    explicit Waiter(Mailbox& mailbox);
    ~Waiter();
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;

   private:
    Mailbox& mailbox_;
  };

  // --- engine ---
  // Whether a thread of the program drives the engine.
  bool driven() const { return driven_.load(std::memory_order_relaxed); }
  // Replaces `entries` by all entries since the last call.
  void take(std::vector<Entry>& entries) KOLO_EXCLUDES(mutex_);
  // From now on, until the engine's thread has parked, writes of other ranks wake it. The caller
  // must look once more for what they wrote before.
  void listen() { doorbell_.listen(); }
  void stop_listening() { doorbell_.stop_listening(); }
  // For the engine's thread: sleeps while a thread of the program drives. Otherwise sleeps until an
  // entry has lain there for `patience`, a thread begins to wait, another rank rings the doorbell,
  // or the deadline passes. helped() postpones the deadline.
  void park(std::optional<Clock::time_point> deadline) KOLO_EXCLUDES(mutex_);
  bool somebody_waits() const KOLO_EXCLUDES(mutex_);
  // Wakes the engine's thread for each submission from now on.
  void lose_patience() KOLO_EXCLUDES(mutex_);
  // Frees the names of operations that have ended. The next operation in line gets the name.
  void release(const std::vector<Operation*>& operations) KOLO_EXCLUDES(mutex_);
  // Lets all further submissions fail with `reason`.
  void close(const Status& reason) KOLO_EXCLUDES(mutex_);
  // Sets where the tensor of an allreduce of that name is packed; without a slot it is not packed.
  void set_slot(int process_set, const std::string& name, std::optional<Slot> slot)
      KOLO_EXCLUDES(mutex_);

 private:
  // The operation in flight under a name that was refused, and the operations queued behind it.
  using Line = std::deque<std::shared_ptr<Operation>>;
  using Names = std::unordered_map<std::string, BookedName>;

  void wake() KOLO_REQUIRES(mutex_);
  void wake_for_submission() KOLO_REQUIRES(mutex_);
  void set_alarm(Clock::time_point then) KOLO_REQUIRES(mutex_);
  Clock::time_point time_of_alarm() const KOLO_REQUIRES(mutex_);
  bool is_time_to_turn(Clock::time_point now) const KOLO_REQUIRES(mutex_);
  Status reserve(const std::shared_ptr<Operation>& operation, bool& taken) KOLO_EXCLUDES(mutex_);
  bool line_up(BookedName& name, const std::shared_ptr<Operation>& operation) KOLO_REQUIRES(mutex_);
  void release(Operation& operation) KOLO_REQUIRES(mutex_);
  void unbook(Operation& operation) KOLO_REQUIRES(mutex_);
  void forget(int process_set, OpKind kind, const std::string& name) KOLO_REQUIRES(mutex_);
  bool waits_in_line(const Operation& operation) const KOLO_REQUIRES(mutex_);
  void enter(const std::shared_ptr<Operation>& operation, bool quietly) KOLO_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::optional<Clock::duration> patience_ KOLO_GUARDED_BY(mutex_);
  shm::Doorbell doorbell_;  // wakes the engine's thread
  CondVar driver_condition_;
  std::atomic<bool> driven_{false};                               // changed under the lock
  std::atomic<Clock::duration> helped_{Clock::duration::zero()};  // since the clock's epoch
  std::vector<Entry> entries_ KOLO_GUARDED_BY(mutex_);
  // By process set and kind of operation.
  std::map<std::pair<int, OpKind>, Names> names_ KOLO_GUARDED_BY(mutex_);
  std::map<const BookedName*, Line> lines_ KOLO_GUARDED_BY(mutex_);
  Status closed_ KOLO_GUARDED_BY(mutex_);
  std::unordered_set<int> submitted_since_boundary_ KOLO_GUARDED_BY(mutex_);  // process sets
  std::atomic<bool> any_since_boundary_{false};  // of them; changed under the lock
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
