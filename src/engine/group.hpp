// One rank's part in a process set: its control plane and its work in flight. Groups are
// independent, so one that waits does not block another. Used by the thread that drives.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collectives/algorithms/algorithms.hpp"
#include "collectives/backend.hpp"
#include "collectives/device.hpp"
#include "collectives/lifelines.hpp"
#include "collectives/shm/node.hpp"
#include "coordinator/control_plane.hpp"
#include "engine/bucket_table.hpp"
#include "engine/completion.hpp"
#include "engine/device_queue.hpp"
#include "engine/group_backend.hpp"
#include "engine/launch.hpp"
#include "engine/mailbox.hpp"
#include "engine/operation.hpp"
#include "engine/operation_recorder.hpp"
#include "engine/pending_operations.hpp"
#include "engine/slot_pool.hpp"
#include "engine/watchdog.hpp"
#include "engine/work_queue.hpp"
#include "timeline/tracing.hpp"

namespace kolo {

struct GroupOptions {
  // See LaunchOptions.
  std::size_t fusion_tensor_bytes = 128 << 10;
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
  // Interval at which ranks of the world report their counters to rank 0. 0: never.
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
  ~Group() = default;
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
    return !pending_.is_empty() || has_work_in_flight() || control_.sending();
  }
  // Whether other ranks may wait for this one, or report to it.
  bool has_others() const { return size_ > 1 && !closed_; }
  // Whether other ranks need this one while its program does something else, and cannot wake it.
  bool coordinates_messages() const {
    return size_ > 1 && !on_one_node_ && !closed_ && control_.coordinates();
  }
  bool has_work_in_flight() const { return !queue_.is_empty() || !device_.is_empty(); }

  // Gives up waiting for members that have not left, and returns their names.
  std::string stop_waiting();
  // Ends every operation with the status. Work in flight is kept, because its messages may still
  // arrive.
  void fail_all(const Status& status);
  // Ends work on the device that waits for lost ranks. Called after fail_all() of all groups.
  void abort_device() { device_.abort(); }
  // Restarts all timeouts, because this process did not run until now.
  void count_from(Clock::time_point now);
  void say_abort(const std::string& message) { control_.say_abort(message); }

  // Ends one operation other than by its collective, and wakes its waiting thread.
  void complete(const std::shared_ptr<Operation>& operation, const Status& status) {
    completion_.end(operation, status);
  }

 private:
  Status carry_out(const Participant::Launch& launch);
  Status carry_out(const Participant::Failure& failure);
  Status carry_out(const Participant::BucketBegins& bucket);
  Status carry_out(const Participant::BucketEnds& bucket);
  Status carry_out(const Participant::Joined& joined);
  Status carry_out(const Participant::Closed& closed);
  Status carry_out(const Participant::Stalled& stalled);
  std::shared_ptr<Operation> take_pending(Participant::Token token);
  Backend& backend_on(DeviceKind device);
  std::unique_ptr<Work> make_work(RunningCollective& running, EntryId entry, Backend& backend,
                                  bool stands_in);
  Status advance_control(bool& moved);
  Status keep_measures();
  void watch_held_tensors(Clock::time_point now);
  void tell_measures(Clock::time_point now);
  Status watch_stalls(GroupSnapshot group);

  // Constant after construction.
  const int process_set_;
  const int size_;
  const GroupOptions options_;
  const LaunchOptions launch_options_;
  const GroupPlace place_;
  const bool on_one_node_;      // and its ranks share memory
  timeline::Tracing& tracing_;  // outlives this
  const std::unique_ptr<Transport> transport_;
  const std::unique_ptr<Backend> backend_;  // of the host

  OperationRecorder recorder_;
  Completion completion_;
  ControlPlane control_;
  DeviceQueue device_;
  WorkQueue queue_;
  BucketTable buckets_;  // after device_: its buffers are freed before the device's backend ends
  Watchdog watchdog_;
  PendingOperations pending_;
  std::vector<std::shared_ptr<Operation>> failed_;  // which the participant may still refer to
  std::vector<std::shared_ptr<Operation>> changes_;
  Clock::time_point next_look_at_held_;
  Clock::time_point next_measures_;
  std::optional<Clock::time_point> leaving_;  // since
  bool closed_ = false;  // all members have left, or are not waited for any more
};

}  // namespace kolo
