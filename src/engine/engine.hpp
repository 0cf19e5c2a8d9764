// The engine owns the transport, the control planes and all work in flight. One thread at a time
// drives it: its own thread, or a thread of the program that waits for an operation and so need not
// wake another one. docs/architecture.md shows the path of a tensor through the engine.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/backoff.hpp"
#include "engine/driver.hpp"
#include "engine/group.hpp"
#include "engine/mailbox.hpp"
#include "engine/operation.hpp"
#include "engine/process_sets.hpp"
#include "timeline/tracing.hpp"

namespace kolo {

class Engine {
 public:
  struct Options {
    GroupOptions group;
    Clock::duration shutdown_timeout = std::chrono::seconds(30);
    Backoff::Options backoff;
    // For programs whose threads take all cores: a submitting thread drives the engine for a
    // moment, because the engine's own thread could only run in the place of one of them.
    bool submitters_drive = false;
    // Records the engine's activity. Null: the engine makes one.
    std::shared_ptr<timeline::Tracing> tracing;
  };

  // Takes over the transport and starts the thread. `node`: the memory that the ranks of this node
  // share, or null.
  Engine(std::unique_ptr<Transport> transport, std::shared_ptr<shm::Node> node,
         const Options& options);

  // Shuts down, see shut_down(). After a failure the transport, the work in flight and its memory
  // are kept until the process ends, because a message may still arrive in them.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  timeline::Tracing& tracing() { return *tracing_; }

  // --- any thread ---

  // Submits an operation. It ends when the same operation was submitted on every rank of its
  // process set. On an error the engine has not taken it.
  Status submit(const std::shared_ptr<Operation>& operation);

  // While an object lives, its thread waits for each operation right after submitting it. Then
  // wait() drives the engine, and the engine's own thread is not woken.
  class WaitsAtOnce {
   public:
    WaitsAtOnce() { ++depth_; }
    ~WaitsAtOnce() { --depth_; }
    WaitsAtOnce(const WaitsAtOnce&) = delete;
    WaitsAtOnce& operator=(const WaitsAtOnce&) = delete;
    static bool of_this_thread() { return depth_ > 0; }

   private:
    static thread_local int depth_;
  };

  // Waits for the operation's end, at most `timeout`, and records the wait in the timeline. Returns
  // the operation's status, or kTimeout; in that case the operation goes on.
  Status wait(const std::shared_ptr<Operation>& operation, std::optional<Clock::duration> timeout);

  // Whether wait() would return at once.
  bool ready(const std::shared_ptr<Operation>& operation);

  // Collective. Completes operations that all ranks submit; the others fail. Waits for the other
  // ranks to shut down, at most the shutdown timeout. Later submissions fail. Returns false if the
  // engine had failed or another rank did not shut down in time. In that case the program must not
  // call anything that waits for the other ranks, such as MPI_Finalize.
  bool shut_down();

 private:
  bool is_time_to_help(bool packed);
  // Advances everything that need not wait, unless another thread drives.
  void help() noexcept KOLO_EXCLUDES(seat_);
  void run() KOLO_EXCLUDES(seat_);
  bool run_one_turn(std::optional<Clock::time_point>& sleep_until, bool& sleeps)
      KOLO_EXCLUDES(seat_);
  Status wait_in_silence(const std::shared_ptr<Operation>& operation,
                         std::optional<Clock::duration> timeout);
  // An exception ends the process, as it does on the engine's own thread, because half a turn
  // leaves an unknown state.
  void drive(const Operation& operation, std::optional<Clock::time_point> deadline) noexcept
      KOLO_EXCLUDES(seat_);
  // Runs one round of the loop. Returns whether something moved.
  bool turn() KOLO_REQUIRES(seat_);
  bool drain_mailbox() KOLO_REQUIRES(seat_);
  void submit_to_group(const std::shared_ptr<Operation>& operation) KOLO_REQUIRES(seat_);
  // Called at the first operation on a device.
  void leave_computing_to_device() KOLO_REQUIRES(seat_);
  bool turn_groups() KOLO_REQUIRES(seat_);
  void leave() KOLO_REQUIRES(seat_);
  void watch_timers() KOLO_REQUIRES(seat_);
  void watch_shutdown() KOLO_REQUIRES(seat_);
  void break_down(const Status& status) KOLO_REQUIRES(seat_);
  bool nothing_to_do() const KOLO_REQUIRES(seat_);
  bool outstanding() const KOLO_REQUIRES(seat_);
  bool coordinates_messages() const KOLO_REQUIRES(seat_);
  std::optional<Clock::time_point> next_watch() const KOLO_REQUIRES(seat_);

  // Constant after construction.
  const Options options_;
  const int rank_;
  const int size_;

  // Shared between threads; lock themselves.
  const std::shared_ptr<timeline::Tracing> tracing_;
  Driver driver_;
  Mailbox mailbox_;
  std::atomic<std::uint32_t> packed_{0};  // submissions that were
  std::atomic<bool> submitters_drive_;    // until a device computes, which leaves cores free

  // Held by the thread that drives.
  Mutex seat_;
  std::unique_ptr<ProcessSets> sets_ KOLO_GUARDED_BY(seat_);  // null after shut_down()
  Backoff backoff_ KOLO_GUARDED_BY(seat_);
  Clock::duration patience_ KOLO_GUARDED_BY(seat_);  // where submitters drive
  bool on_device_ KOLO_GUARDED_BY(seat_) = false;    // there have been operations on one
  Clock::time_point turned_ KOLO_GUARDED_BY(seat_) = Clock::now();  // when turn() was called last
  bool moved_ KOLO_GUARDED_BY(seat_) = false;  // something, since its thread last listened
  std::vector<Mailbox::Entry> entries_ KOLO_GUARDED_BY(seat_);
  // Set while shutting down.
  std::optional<Clock::time_point> leave_deadline_ KOLO_GUARDED_BY(seat_);
  bool waits_no_more_ KOLO_GUARDED_BY(seat_) = false;  // the deadline has passed
  bool broken_ KOLO_GUARDED_BY(seat_) = false;         // a peer is lost
  bool ended_ KOLO_GUARDED_BY(seat_) = false;          // shut down: there is nothing to drive
  Status broken_status_ KOLO_GUARDED_BY(seat_);        // why it is broken

  std::thread thread_;  // last: it uses all the others
};

}  // namespace kolo
