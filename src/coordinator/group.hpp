// A process set as one of its ranks takes part in it: its control plane and its work in flight.
// Groups know nothing of each other, so what one waits for holds no other up. Used by the engine
// thread alone.
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
#include "coordinator/running.hpp"
#include "coordinator/slot_pool.hpp"
#include "coordinator/stall.hpp"
#include "timeline/tracing.hpp"

namespace kolo {

struct GroupOptions {
  LaunchOptions launch;
  // Of each rank of the world: a number for those that it shares memory with. Empty: it is the
  // ranks of `node` that share memory, or nobody.
  std::vector<int> nodes;
  Tuning tuning;
  // This process' device: found, or made, when the first collective on one is to run. Null: none.
  std::function<Status(std::shared_ptr<Device>& device)> find_device;
  // Below this a collective is a small one: many of them are in flight at once.
  std::size_t small_bytes = 32 << 10;
  PlanLimits limits;
  std::size_t cache_capacity = 16384;
  Clock::duration fusion_hold = std::chrono::seconds(30);
  Clock::duration collective_timeout = std::chrono::seconds(300);
  // What some ranks submitted so long ago and others did not is told, and ends the job. 0: never.
  Clock::duration stall_check = Clock::duration::zero();
  Clock::duration stall_shutdown = Clock::duration::zero();
  // Shows which ranks of this node have ended or are stopped. Null if the rank has no lifelines.
  std::shared_ptr<const Lifelines> lifelines;
  // How often ranks of the world tell rank 0 what they count. 0: never.
  Clock::duration metrics_every = Clock::duration::zero();
};

class Group {
 public:
  // `ranks` are the members in the world, in the order of their ranks here; `slot` is one that no
  // other group has now, and `node` null where memory is not shared. The mailbox and `tracing`
  // outlive this.
  Group(int process_set, SlotPool::Slot slot, std::vector<int> ranks,
        std::unique_ptr<Transport> transport, const std::shared_ptr<shm::Node>& node,
        const GroupOptions& options, Mailbox& mailbox, timeline::Tracing& tracing);
  // Nothing may be in flight any more.
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  // --- what the program does ---
  void submit(const std::shared_ptr<Operation>& operation);
  void boundary() { control_.participant().boundary(); }
  void wanted(const Operation& operation);
  void leave();

  // One round: messages, decisions, work. An error means that the job has failed.
  Status turn(bool& moved);
  // Looks at what has waited for too long. Likewise.
  Status watch_timers();

  // Operations of kAddProcessSet and kRemoveProcessSet that all ranks have submitted, in the order
  // in which all ranks see them; the caller completes them. (Stand-ins among them, on a rank that
  // has joined.)
  std::vector<std::shared_ptr<Operation>> take_changes() { return std::exchange(changes_, {}); }

  // Whether all members have left and all is done that they had begun.
  bool finished() const;
  bool outstanding() const {
    return any_pending() || !running_.empty() || !enqueued_.empty() || control_.sending();
  }
  // Whether there are others who may wait for this rank, or tell it that somebody does.
  bool has_others() const { return size_ > 1 && !closed_; }
  // Whether others need this rank while its own program does something else, and cannot wake it.
  bool coordinates_messages() const {
    return size_ > 1 && !on_one_node_ && !closed_ && control_.coordinates();
  }
  bool has_work_in_flight() const { return !running_.empty() || !enqueued_.empty(); }

  // Gives up waiting for members that have not left; says which.
  std::string stop_waiting();
  // Ends every operation with the status. Work in flight stays where it is: messages may still be
  // under way.
  void fail_all(const Status& status);
  // After that, of all groups: ends what waits on the device for ranks that are gone, which nothing
  // else would.
  void abort_device();
  // This process could not look at anything until now: what did not move may move from now on.
  void count_from(Clock::time_point now);
  void say_abort(const std::string& message) { control_.say_abort(message); }

  // Ends one operation, not by success of its collective, and tells its waiter.
  void complete(const std::shared_ptr<Operation>& operation, const Status& status);

 private:
  // What is over for the program, and not yet for the device, which works with what it refers to.
  struct Enqueued {
    Running running;
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
  std::unique_ptr<Work> make_work(Running& running, UnitId unit, Backend& backend, bool stands_in);
  std::unique_ptr<Work> prepare_first(Turn turn, const Descriptor& descriptor,
                                      std::unique_ptr<Work> work);
  Status advance_control(bool& moved);
  Status start_and_step_work(bool& moved);
  Status step(Running& running, bool& moved);
  Progress start_or_step(Running& running, Status& status);
  Status start(Running& running);
  Status end_on_device(Running& running);
  Status look_at_device(bool& moved);
  bool any_pending() const { return free_tokens_.size() < pending_.size(); }
  Participant::Token keep_pending(const std::shared_ptr<Operation>& operation);
  std::shared_ptr<Operation> take_pending(Participant::Token token);
  void end(const Running& running);
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
  std::list<Running> running_;                      // by sequence
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
