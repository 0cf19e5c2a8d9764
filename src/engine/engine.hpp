// The engine owns the transport, the control planes and all work in flight. A Driver decides which
// thread turns its loop. docs/architecture.md shows the path of a tensor through the engine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/driver.hpp"
#include "engine/group.hpp"
#include "engine/mailbox.hpp"
#include "engine/operation.hpp"
#include "engine/process_sets.hpp"
#include "timeline/tracing.hpp"

namespace kolo {

class Engine final : private Driven {
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

  // While an object lives, its thread submits operations for which it waits right afterwards. Then
  // wait() drives the engine, and the engine's own thread is not woken. If the object lives during
  // the wait, too, the wait counts from the submission.
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

  // While an object lives, its thread waits for one operation after the other, and goes on driving
  // the engine until the end. Otherwise it would wake the engine's own thread after each wait, and
  // take the engine away from it again in the next one. Between two waits nobody drives, so the
  // thread must not poll ready(), or block on what may need the engine, such as a device. A thread
  // has one object at a time, and the engine must outlive it.
  class WaitsForSeveral {
   public:
    explicit WaitsForSeveral(Engine& engine) : engine_(engine) { current_ = this; }
    ~WaitsForSeveral();
    WaitsForSeveral(const WaitsForSeveral&) = delete;
    WaitsForSeveral& operator=(const WaitsForSeveral&) = delete;

   private:
    friend class Engine;
    // The object of this thread that belongs to the engine, or null.
    static WaitsForSeveral* of(const Engine& engine);

    static thread_local WaitsForSeveral* current_;

    Engine& engine_;
    bool drives_ = false;
  };

  // Waits for the operation's end, at most `timeout`, and records the wait in the timeline. Returns
  // the operation's status, or kTimeout; in that case the operation goes on.
  Status wait(const std::shared_ptr<Operation>& operation, std::optional<Clock::duration> timeout);

  // Whether wait() would return at once.
  bool ready(const std::shared_ptr<Operation>& operation);

  // See Driver::visit().
  void visit(const std::function<void()>& function) { driver_.visit(function); }

  // Collective. Completes operations that all ranks submit; the others fail. Waits for the other
  // ranks to shut down, at most the shutdown timeout. Later submissions fail. Returns false if the
  // engine had failed or another rank did not shut down in time. In that case the program must not
  // call anything that waits for the other ranks, such as MPI_Finalize.
  bool shut_down();

 private:
  // From Driven.
  bool turn() override KOLO_REQUIRES(driver_.seat());
  void watch_timers() override KOLO_REQUIRES(driver_.seat());
  State state() const override KOLO_REQUIRES(driver_.seat());
  bool has_ended() const override KOLO_REQUIRES(driver_.seat()) { return ended_; }
  bool may_end() override KOLO_REQUIRES(driver_.seat());
  bool coordinates_messages() const override KOLO_REQUIRES(driver_.seat());
  std::optional<Clock::time_point> next_watch() const override KOLO_REQUIRES(driver_.seat());

  Status wait_in_silence(const std::shared_ptr<Operation>& operation,
                         std::optional<Clock::duration> timeout);
  bool drain_mailbox() KOLO_REQUIRES(driver_.seat());
  void submit_to_group(const std::shared_ptr<Operation>& operation) KOLO_REQUIRES(driver_.seat());
  bool turn_groups() KOLO_REQUIRES(driver_.seat());
  void leave() KOLO_REQUIRES(driver_.seat());
  void watch_shutdown() KOLO_REQUIRES(driver_.seat());
  void break_down(const Status& status) KOLO_REQUIRES(driver_.seat());
  bool nothing_to_do() const KOLO_REQUIRES(driver_.seat());
  bool outstanding() const KOLO_REQUIRES(driver_.seat());

  // Constant after construction.
  const Options options_;
  const int rank_;
  const int size_;

  // Shared between threads; lock themselves.
  const std::shared_ptr<timeline::Tracing> tracing_;
  Driver driver_;
  Mailbox mailbox_;

  // Guarded by the seat, which the thread that drives holds.
  std::unique_ptr<ProcessSets> sets_ KOLO_GUARDED_BY(driver_.seat());  // null after shut_down()
  bool on_device_ KOLO_GUARDED_BY(driver_.seat()) = false;  // there have been operations on one
  Clock::time_point turned_ KOLO_GUARDED_BY(driver_.seat()) =
      Clock::now();  // when turn() was called last
  std::vector<Mailbox::Entry> entries_ KOLO_GUARDED_BY(driver_.seat());
  // Set while shutting down.
  std::optional<Clock::time_point> leave_deadline_ KOLO_GUARDED_BY(driver_.seat());
  bool waits_no_more_ KOLO_GUARDED_BY(driver_.seat()) = false;  // the deadline has passed
  bool broken_ KOLO_GUARDED_BY(driver_.seat()) = false;         // a peer is lost
  bool ended_ KOLO_GUARDED_BY(driver_.seat()) = false;    // shut down: there is nothing to drive
  Status broken_status_ KOLO_GUARDED_BY(driver_.seat());  // why it is broken
};

}  // namespace kolo
