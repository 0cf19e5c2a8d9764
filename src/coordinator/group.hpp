// One rank's part in a process set: its control plane and its work in flight. Groups are
// independent, so one that waits does not block another. Used by the engine thread alone.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "collectives/algorithms/algorithms.hpp"
#include "collectives/backend.hpp"
#include "collectives/device.hpp"
#include "collectives/lifelines.hpp"
#include "collectives/shm/node.hpp"
#include "coordinator/control_plane.hpp"
#include "coordinator/launch.hpp"
#include "coordinator/mailbox.hpp"
#include "coordinator/operation.hpp"
#include "coordinator/operation_recorder.hpp"
#include "coordinator/running_collective.hpp"
#include "coordinator/slot_pool.hpp"
#include "coordinator/stall.hpp"
#include "timeline/tracing.hpp"

namespace kolo {

struct GroupOptions {
  LaunchOptions launch;
  // For each rank of the world, the number of its node: ranks of a node share memory. Empty: the
  // ranks of `node` share memory, if there is one.
  std::vector<int> nodes;
  Tuning tuning;
  // Returns this process's device, which is made when its first collective is about to run. Null:
  // there is no device.
  std::function<Status(std::shared_ptr<Device>& device)> find_device;
  // Collectives below this size are small: many of them may be in flight at once.
  std::size_t small_bytes = 32 << 10;
  PlanLimits limits;
  std::size_t cache_capacity = 16384;
  Clock::duration fusion_hold = std::chrono::seconds(30);
  Clock::duration collective_timeout = std::chrono::seconds(300);
  // After these times an operation that some ranks have submitted and others have not is logged,
  // and ends the job. 0: never.
  Clock::duration stall_check = Clock::duration::zero();
  Clock::duration stall_shutdown = Clock::duration::zero();
  // Shows which ranks of this node have ended or are stopped. Null if the rank has no lifelines.
  std::shared_ptr<const Lifelines> lifelines;
  // How often ranks of the world report their counters to rank 0. 0: never.
  Clock::duration metrics_every = Clock::duration::zero();
};

class Group {
 public:
  // `ranks`: the members, as ranks of the world, in the order of their ranks in this group. `slot`:
  // one that no other living group has. `node`: null if no memory is shared. The mailbox and
  // `tracing` outlive this.
  Group(int process_set, SlotPool::Slot slot, std::vector<int> ranks,
        std::unique_ptr<Transport> transport, const std::shared_ptr<shm::Node>& node,
        const GroupOptions& options, Mailbox& mailbox, timeline::Tracing& tracing);
  // Nothing may be in flight any more.
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  // --- entries of the mailbox ---
  void submit(const std::shared_ptr<Operation>& operation);
  void boundary() { control_.participant().boundary(); }
  void wanted(const Operation& operation);
  void leave();

  // One round: messages, decisions, work. An error means that the job has failed.
  Status turn(bool& moved);
  // Checks for operations and ranks that take too long. An error as above.
  Status watch_timers();

  // Returns the operations of kAddProcessSet and kRemoveProcessSet that all ranks have submitted,
  // in the same order on all ranks. The caller completes them. On a rank that has joined they are
  // placeholders.
  std::vector<std::shared_ptr<Operation>> take_changes() { return std::exchange(changes_, {}); }

  // Whether all members have left and all their operations have ended.
  bool finished() const;
  bool outstanding() const {
    return any_pending() || !running_.empty() || !enqueued_.empty() || control_.sending();
  }
  // Whether other ranks may wait for this one, or report to it.
  bool has_others() const { return size_ > 1 && !closed_; }
  // Whether other ranks need this one while its program does something else, and cannot wake it.
  bool coordinates_messages() const {
    return size_ > 1 && !on_one_node_ && !closed_ && control_.coordinates();
  }
  bool has_work_in_flight() const { return !running_.empty() || !enqueued_.empty(); }

  // Gives up waiting for members that have not left, and returns their names.
  std::string stop_waiting();
  // Ends every operation with the status. Work in flight is kept, because its messages may still
  // arrive.
  void fail_all(const Status& status);
  // Ends work on the device that waits for lost ranks. Called after fail_all() of all groups.
  void abort_device();
  // Restarts all timeouts, because this process did not run until now.
  void count_from(Clock::time_point now);
  void say_abort(const std::string& message) { control_.say_abort(message); }

  // Ends one operation other than by its collective, and wakes its waiting thread.
  void complete(const std::shared_ptr<Operation>& operation, const Status& status);

 private:
  // A collective that has ended for the program, while the device still uses its tensors.
  struct Enqueued {
    RunningCollective running;
    std::shared_ptr<DevicePoint> results;
    std::shared_ptr<DeviceSpan> span;  // null: not timed
  };

  std::unique_ptr<Backend> make_backend(const std::shared_ptr<shm::Node>& node,
                                        SlotPool::Slot slot) const;
  std::unique_ptr<ControlChannel> make_control_channel(const std::shared_ptr<shm::Node>& node,
                                                       SlotPool::Slot slot) const;
  Status carry_out(const Participant::Launch& launch);
  Status carry_out(const Participant::Failure& failure);
  Status carry_out(const Participant::BucketBegins& bucket);
  Status carry_out(const Participant::BucketEnds& bucket);
  Status carry_out(const Participant::Joined& joined);
  Status carry_out(const Participant::Closed& closed);
  Status carry_out(const Participant::Stalled& stalled);
  Backend& backend_on(DeviceKind device);
  std::unique_ptr<Work> make_work(RunningCollective& running, UnitId unit, Backend& backend,
                                  bool stands_in);
  std::unique_ptr<Work> prepare_first(Turn turn, const Descriptor& descriptor,
                                      std::unique_ptr<Work> work);
  Status advance_control(bool& moved);
  Status start_and_step_work(bool& moved);
  Status step(RunningCollective& running, bool& moved);
  Progress start_or_step(RunningCollective& running, Status& status);
  Status start(RunningCollective& running);
  Status end_on_device(RunningCollective& running);
  Status look_at_device(bool& moved);
  bool any_pending() const { return free_tokens_.size() < pending_.size(); }
  Participant::Token keep_pending(const std::shared_ptr<Operation>& operation);
  std::shared_ptr<Operation> take_pending(Participant::Token token);
  void end(const RunningCollective& running);
  using Unfinished = std::unordered_map<Operation*, Status>;
  static Unfinished finish_all(std::span<const LaunchMember> members);
  Status keep_measures();
  void tell(std::span<const LaunchMember> members, const Unfinished& unfinished);
  void watch_held_tensors(Clock::time_point now);
  void tell_measures(Clock::time_point now);
  Status watch_lost_ranks(Clock::time_point now);
  Status watch_device(Clock::time_point now);
  Status name_lost_rank(const Status& status) const;
  Status watch_stalls(Clock::time_point now);
  // A collective that has started and does not move, the first of its kind.
  struct Slow {
    std::string text;
    std::uint64_t sequence;
    std::uint64_t last_sequence;  // of all that is under way
  };
  std::string who_is_stopped() const;
  std::string what_is_waited_for(const Work& work) const;
  std::string what_stops_devices() const;
  static std::string and_more(std::ptrdiff_t more);
  std::string on_this_rank() const;
  std::optional<Slow> slow_running(Clock::time_point now, Clock::duration patience) const;
  std::optional<Slow> slow_on_device(Clock::time_point now, Clock::duration patience) const;
  void watch_running(Clock::time_point now);
  void tell_slow(const std::optional<Slow>& slow, std::uint64_t& told);
  Status watch_coordinator(Clock::time_point now);
  bool is_too_old(Clock::duration age) const;
  static Status ended_by_stall(const std::string& text);
  std::string what_stalls(Clock::time_point now) const;

  // Constant after construction.
  const int process_set_;
  const int size_;
  const GroupOptions options_;
  const bool on_one_node_;      // and its ranks share memory
  Mailbox& mailbox_;            // outlives this
  timeline::Tracing& tracing_;  // likewise
  OperationRecorder recorder_;

  const std::unique_ptr<Transport> transport_;
  const std::unique_ptr<Backend> backend_;
  std::shared_ptr<Device> device_;                 // null until something is there
  std::unique_ptr<DeviceBackend> device_backend_;  // likewise
  ControlPlane control_;
  std::vector<std::shared_ptr<Operation>> pending_;  // not launched yet, by token - 1; or null
  std::vector<Participant::Token> free_tokens_;
  std::vector<std::shared_ptr<Operation>> failed_;  // which the participant may still refer to
  std::list<RunningCollective> running_;            // by sequence
  std::deque<Enqueued> enqueued_;                   // in the device's order
  Clock::time_point device_moved_;                  // when the first of these became the first
  std::vector<Operation*> over_;                    // within tell(); keeps its memory
  std::vector<std::shared_ptr<Operation>> changes_;
  std::unordered_map<UnitId, BucketBuffer> buckets_;
  std::unordered_map<UnitId, std::vector<std::string>> bucket_names_;
  Clock::time_point next_look_at_held_;
  Clock::time_point next_look_at_ranks_;
  Clock::time_point next_look_at_stalls_;
  Clock::time_point next_measures_;
  ToldStalls told_;
  Clock::time_point told_of_stalls_;       // by the coordinator, or of its silence, the last time
  std::uint64_t slow_told_ = 0;            // up to this sequence number, exclusive
  std::uint64_t slow_on_device_told_ = 0;  // likewise
  std::optional<int> seen_lost_;           // in the world, at the last look
  std::optional<Clock::time_point> leaving_;  // since
  bool closed_ = false;  // all members have left, or are not waited for any more
};

}  // namespace kolo
