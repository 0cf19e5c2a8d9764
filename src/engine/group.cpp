#include "engine/group.hpp"

#include <utility>

#include "core/log.hpp"

namespace kolo {
namespace {

WatchdogOptions watchdog_options(const GroupOptions& options, const std::vector<int>& ranks,
                                 int rank, bool on_one_node) {
  WatchdogOptions watch;
  watch.ranks = ranks;
  watch.rank = rank;
  watch.on_one_node = on_one_node;
  watch.collective_timeout = options.collective_timeout;
  watch.stall_check = options.stall_check;
  watch.stall_shutdown = options.stall_shutdown;
  watch.fusion_hold = options.fusion_hold;
  if (options.lifelines == nullptr) return watch;
  watch.stopped_ranks = [lifelines = options.lifelines](const std::vector<int>& some) {
    return lifelines->stopped_ranks(some);
  };
  watch.lost_rank = [lifelines = options.lifelines](const std::vector<int>& some) {
    return lifelines->lost_rank(some);
  };
  return watch;
}

}  // namespace

Group::Group(int process_set, SlotPool::Slot slot, std::vector<int> ranks,
             std::unique_ptr<Transport> transport, const std::shared_ptr<shm::Node>& node,
             const GroupOptions& options, Mailbox& mailbox, timeline::Tracing& tracing)
    : process_set_(process_set),
      size_(transport->size()),
      options_(options),
      launch_options_{std::move(ranks), options.fusion_tensor_bytes},
      place_{launch_options_.ranks, options.nodes, node, slot},
      on_one_node_(find_on_node(place_).has_value()),
      tracing_(tracing),
      transport_(std::move(transport)),
      backend_(make_group_backend(place_, *transport_, options_.tuning)),
      recorder_(process_set, launch_options_.ranks, tracing),
      completion_(mailbox, recorder_),
      control_(make_group_channel(place_, *transport_),
               {launch_options_.ranks, options.limits, options.cache_capacity}),
      device_({launch_options_.ranks, transport_->rank(), options.find_device, options.lifelines},
              *backend_, completion_, recorder_),
      queue_(completion_, recorder_, device_, tracing),
      buckets_(process_set, mailbox),
      watchdog_(
          watchdog_options(options_, launch_options_.ranks, transport_->rank(), on_one_node_)) {}

void Group::submit(const std::shared_ptr<Operation>& operation) {
  const Participant::Token token = pending_.keep(operation);
  ++tracing_.load.negotiating;
  recorder_.submitted(*operation);
  if (operation->descriptor.kind == OpKind::kJoin) return control_.participant().join(token);
  const bool known = control_.participant().submit(
      {token, operation->name, operation->descriptor, operation->absent, operation->transient,
       operation->submitted, !operation->queued,
       operation->packed_at ? operation->packed_at->place : BucketPlace{}});
  if (!traits_of(operation->descriptor.kind).is_internal) tracing_.meters().submitted(known);
}

void Group::wanted(const Operation& operation) {
  control_.participant().wanted(name_space_of(operation.descriptor, operation.transient),
                                operation.name);
  recorder_.wanted(operation);
}

void Group::leave() {
  if (leaving_) return;
  leaving_ = Clock::now();
  control_.participant().leave();
}

Status Group::turn(bool& moved) {
  Status status = advance_control(moved);
  if (status.is_ok()) status = queue_.step(moved);
  if (status.is_ok()) status = device_.look(moved);
  return status;
}

Status Group::advance_control(bool& moved) {
  std::vector<Participant::Action> actions;
  control_.keep_arrivals(tracing_.on());
  Status status = control_.advance(moved, actions);
  for (const Negotiator::Arrival& arrival : control_.take_arrivals()) recorder_.arrived(arrival);
  if (status.is_ok()) status = keep_measures();
  for (const Participant::Action& action : actions) {
    if (closed_ || !status.is_ok()) break;
    try {
      status = std::visit([this](const auto& body) { return carry_out(body); }, action);
    } catch (const std::exception& error) {  // no memory, or no device
      status = Status::internal(error.what());
    }
  }
  if (status.is_ok() && closed_ && !leaving_) {
    // The coordinator has given up waiting for this rank, so no agreement is possible any more.
    status = Status::peer_lost("rank " + std::to_string(launch_options_.ranks[0]) +
                               ", the coordinator, has shut kolo down; no further operation is "
                               "possible. Call kolo::shutdown() on every rank at the same point");
  }
  return status;
}

Status Group::keep_measures() {
  for (const auto& [rank, numbers] : control_.take_measures()) {
    Measures measures;
    if (!from_numbers(numbers, measures)) {
      return Status::internal("rank " + std::to_string(rank) + " sent " +
                              std::to_string(numbers.size()) +
                              " metrics, which this version does not expect; do all ranks run the "
                              "same version of kolo?");
    }
    tracing_.board().keep(launch_options_.ranks[static_cast<std::size_t>(rank)], measures);
  }
  return Status::ok();
}

std::shared_ptr<Operation> Group::take_pending(Participant::Token token) {
  --tracing_.load.negotiating;
  return pending_.take(token);
}

Backend& Group::backend_on(DeviceKind device) {
  return device == DeviceKind::kCpu ? *backend_ : device_.backend();
}

Status Group::carry_out(const Participant::Launch& launch) {
  RunningCollective& running = queue_.add(launch.sequence);
  bool anything = false;
  bool stands_in = false;
  running.members.reserve(launch.members.size());
  for (const Participant::Member& member : launch.members) {
    std::shared_ptr<Operation> operation =
        member.token == 0
            ? make_placeholder(member.placeholder->name, member.placeholder->descriptor,
                               backend_on(member.placeholder->descriptor.device),
                               buckets_.find(launch.entry) != nullptr)
            : take_pending(member.token);
    stands_in = stands_in || member.token == 0;
    anything = anything || !member.absent_everywhere;
    running.members.push_back({std::move(operation), member.absent_everywhere});
  }
  const std::shared_ptr<Operation> first = running.members.front().operation;
  Backend& backend = backend_on(anything ? first->descriptor.device : DeviceKind::kCpu);
  running.on_device = &backend != backend_.get();
  const Medium medium =
      backend.medium(carried_out_as(first->descriptor.kind), first->descriptor.op);
  std::optional<OperationRecorder::Bucket> in_bucket;
  if (const BucketBuffer* const bucket = buckets_.find(launch.entry))
    in_bucket = {launch.entry, bucket->bytes};
  recorder_.launched(running, medium, in_bucket);
  if (anything && traits_of(first->descriptor.kind).changes_process_sets) {
    changes_.push_back(first);
    queue_.withdraw_last();
    return Status::ok();
  }
  if (anything) running.work = make_work(running, launch.entry, backend, stands_in);
  running.small = !first->descriptor.has_own_rows() && running.bytes < options_.small_bytes;
  queue_.accept_last();
  return Status::ok();
}

std::unique_ptr<Work> Group::make_work(RunningCollective& running, EntryId entry, Backend& backend,
                                       bool stands_in) {
  const Descriptor& descriptor = running.members.front().operation->descriptor;
  // Part 0 is for the first work on a device.
  const Turn turn{running.sequence, running.on_device ? 1U : 0U};
  std::unique_ptr<Work> work;
  if (const BucketBuffer* const bucket = buckets_.find(entry)) {
    running.bytes = bucket->bytes;
    // A placeholder holds no name. So the program may pack into the bucket's own buffer again after
    // the join, before this has ended.
    work = launch_bucket(backend, turn, running.members, *bucket,
                         stands_in ? backend.make_buffer(bucket->bytes) : bucket->data,
                         launch_options_);
  } else {
    running.bytes = descriptor.bytes();
    work = launch_single(backend, *backend_, turn, running.members.front(), launch_options_);
  }
  if (!running.on_device || work == nullptr) return work;
  return device_.prepared({running.sequence, 0}, descriptor, std::move(work));
}

Status Group::carry_out(const Participant::Failure& failure) {
  const std::shared_ptr<Operation> operation = take_pending(failure.token);
  operation->let_go();  // it was not begun
  complete(operation, failure.status);
  return Status::ok();
}

Status Group::carry_out(const Participant::BucketBegins& bucket) {
  buckets_.begin(bucket, backend_on(bucket.members.front().descriptor.device));
  return Status::ok();
}

Status Group::carry_out(const Participant::BucketEnds& bucket) {
  buckets_.end(bucket.bucket);
  return Status::ok();
}

Status Group::carry_out(const Participant::Joined& joined) {
  const std::shared_ptr<Operation> operation = take_pending(joined.token);
  operation->number = launch_options_.ranks[static_cast<std::size_t>(joined.last_rank)];
  complete(operation, Status::ok());
  return Status::ok();
}

Status Group::carry_out(const Participant::Closed& /*closed*/) {
  closed_ = true;
  return Status::ok();
}

Status Group::carry_out(const Participant::Stalled& stalled) {
  watchdog_.heard_of_stall(Clock::now());
  tracing_.meters().stalled();
  tracing_.ask_for_dump("stall: " + stalled.text);
  return Status::ok();
}

bool Group::finished() const {
  return closed_ && pending_.is_empty() && !has_work_in_flight() && !control_.sending();
}

std::string Group::stop_waiting() {
  closed_ = true;
  return control_.say_bye();
}

void Group::fail_all(const Status& status) {
  for (const std::shared_ptr<Operation>& pending : pending_.take_all()) {
    if (pending == nullptr) continue;
    complete(pending, status);
    failed_.push_back(pending);
  }
  for (const std::shared_ptr<Operation>& operation : std::exchange(changes_, {}))
    complete(operation, status);
  queue_.fail_all(status);
}

Status Group::watch_timers() {
  const Clock::time_point now = Clock::now();
  if (now >= next_look_at_held_) watch_held_tensors(now);
  if (now >= next_measures_) tell_measures(now);
  GroupSnapshot group{now, queue_.running(), pending_.all(), std::nullopt, leaving_, closed_};
  if (!device_.is_empty())
    group.on_device = {&device_.first(), &device_.last(), device_.size(), device_.moved()};
  if (watchdog_.is_time_for_stalls(now)) {
    if (Status s = watch_stalls(group); !s.is_ok()) return s;
  }
  if (watchdog_.is_time_for_ranks(now)) {
    if (Status s = watchdog_.check_ranks(group); !s.is_ok()) return s;
    if (Status s = device_.check(); !s.is_ok()) return s;
  }
  return watchdog_.check_timeouts(group);
}

Status Group::watch_stalls(GroupSnapshot group) {
  std::vector<Stall> stalls;
  if (control_.coordinates()) {
    control_.fail_different_kinds(group.now - options_.stall_check);
    stalls = control_.stalls(group.now - options_.stall_check);
    group.stalls = &stalls;
  }
  const Findings findings = watchdog_.look_for_stalls(group);
  for (const std::string& warning : findings.warnings) log::warning(warning);
  for (const std::string& stall : findings.stalls) {
    tracing_.meters().stalled();
    tracing_.ask_for_dump("stall: " + stall);
  }
  if (!findings.announcement.empty()) control_.say_stalled(findings.announcement);
  return findings.status;
}

void Group::count_from(Clock::time_point now) {
  queue_.count_from(now);
  device_.count_from(now);
  control_.count_from(now);
  watchdog_.start_over();
}

void Group::tell_measures(Clock::time_point now) {
  const bool never =
      options_.metrics_every == Clock::duration::zero() || process_set_ != 0 || leaving_ || closed_;
  next_measures_ = never ? Clock::time_point::max() : now + options_.metrics_every;
  // The next counters include these.
  if (!never && !control_.coordinates() && !control_.sending())
    control_.participant().tell_measures(to_numbers(tracing_.measures()));
}

// A program may wait in ways that this engine does not see: for a message that another rank sends
// only after its own wait.
void Group::watch_held_tensors(Clock::time_point now) {
  next_look_at_held_ = now + options_.fusion_hold / 8;
  const std::size_t given_up = control_.participant().flush(now - options_.fusion_hold);
  if (given_up == 0) return;
  log::warning(std::to_string(given_up) +
               " bucket(s) were given up, because a tensor was submitted " +
               to_text(options_.fusion_hold) +
               " ago and others of its bucket are still missing (KOLO_FUSION_HOLD_SECONDS). "
               "Results stay correct, but another run may fuse differently");
}

}  // namespace kolo
