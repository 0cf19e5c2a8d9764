// Where threads of the program meet the engine: submissions and waits go in, in order; who drives
// the engine takes them out, or sleeps until there are some. That is the engine's own thread, or
// one of the program that has nothing else to do than to wait. Small tensors with a place in a
// bucket are copied there by the submitting thread, which has them in its cache.
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
#include "coordinator/operation.hpp"
#include "core/clock.hpp"
#include "core/status.hpp"
#include "core/thread_annotations.hpp"

namespace kolo {

class Mailbox {
 public:
  // `patience`: how long the engine's thread lets submissions lie, for who submits looks after them
  // as well, see helped(); nothing: not at all.
  // `doorbell`: where other ranks wake this one's engine, or null.
  Mailbox(std::optional<Clock::duration> patience, std::shared_ptr<shm::Doorbell::Lines> doorbell)
      : patience_(patience), doorbell_(std::move(doorbell)) {}

  struct Entry {
    enum class Kind : std::uint8_t { kSubmit, kBoundary, kWanted, kShutdown };
    Kind kind = Kind::kSubmit;
    std::shared_ptr<Operation> operation;  // of kSubmit and kWanted
    int process_set = 0;                   // of kBoundary
  };

  // --- any thread ---
  // Hands the operation over. Fails when the mailbox is closed, and while an operation of the same
  // kind and name is in flight here. Behind a refusal of the same kind and name it waits, since the
  // program cannot know how long that is in flight. `packed`: its tensor now is where its bucket is
  // reduced. `quietly`: the engine's thread is not woken, since the caller is about to wait.
  Status submit(const std::shared_ptr<Operation>& operation, bool& packed, bool quietly = false)
      KOLO_EXCLUDES(mutex_);
  // A thread begins to wait for the operation, or asks whether it is done.
  void wanted(const std::shared_ptr<Operation>& operation) KOLO_EXCLUDES(mutex_);
  // No more submissions: they fail with `reason`. The engine finds a kShutdown entry.
  void shut_down(const Status& reason) KOLO_EXCLUDES(mutex_);

  // Takes the engine's thread's place, if no other thread has it: from now on that thread sleeps.
  bool begin_driving() KOLO_EXCLUDES(mutex_);
  // `more`: there is something left to do, for which the engine's thread is woken.
  void end_driving(bool more) KOLO_EXCLUDES(mutex_);
  // Who submits has gone on with all that could go on: the engine's thread need not look for some
  // time.
  void helped() { helped_.store(Clock::now().time_since_epoch(), std::memory_order_relaxed); }
  // Who drives: sleeps until an entry is there or the deadline passes.
  void rest(Clock::time_point deadline) KOLO_EXCLUDES(mutex_);

  // A thread of the program is blocked while one of these lives: its core is free for the engine.
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
  // Whether a thread of the program drives.
  bool driven() const { return driven_.load(std::memory_order_relaxed); }
  // Replaces `entries` by all that came since.
  void take(std::vector<Entry>& entries) KOLO_EXCLUDES(mutex_);
  // From now on, until it has parked, other ranks wake the engine's thread by what they write. What
  // they wrote before is seen by looking once more.
  void listen() { doorbell_.listen(); }
  void stop_listening() { doorbell_.stop_listening(); }
  // The engine's thread sleeps until an entry is there (or has lain for as long as it has
  // patience), or somebody begins to wait, or another rank calls, or the deadline passes, which
  // helpers put off for a while, and in any case while a thread of the program drives.
  void park(std::optional<Clock::time_point> deadline) KOLO_EXCLUDES(mutex_);
  bool somebody_waits() const KOLO_EXCLUDES(mutex_);
  // From now on the engine's thread is woken for each submission.
  void lose_patience() KOLO_EXCLUDES(mutex_);
  // The operations are over; their names may be used again, or go to the next that wait for them.
  void release(const std::vector<Operation*>& operations) KOLO_EXCLUDES(mutex_);
  // From now on submissions fail with `reason`.
  void close(const Status& reason) KOLO_EXCLUDES(mutex_);
  // Says where the tensor of an allreduce of that name is to be packed; an empty slot ends it.
  void set_slot(int process_set, const std::string& name, std::optional<Slot> slot)
      KOLO_EXCLUDES(mutex_);

 private:
  // What is in flight under a name that was refused, and who waits behind it.
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
  // There were submissions since the engine's thread last slept. Who submits may have drained them,
  // but what they began goes on.
  bool submitted_ KOLO_GUARDED_BY(mutex_) = false;
  // When the engine's thread ends its sleep, unless somebody helped; nothing: not by itself.
  std::optional<Clock::time_point> alarm_ KOLO_GUARDED_BY(mutex_);
};

}  // namespace kolo
