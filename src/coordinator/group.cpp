#include "coordinator/group.hpp"

#include <algorithm>
#include <utility>

#include "collectives/hierarchy/backend.hpp"
#include "collectives/messages/backend.hpp"
#include "collectives/messages/control_channel.hpp"
#include "collectives/shm/backend.hpp"
#include "collectives/shm/control_channel.hpp"
#include "collectives/shm/layout.hpp"
#include "core/launched.hpp"
#include "core/log.hpp"

namespace kolo {
namespace {

// How many large collectives share the links at once: enough for one to pack or reduce while others
// travel. Small ones pass them and are bounded for memory's sake only. Ranks start work in the
// order of its sequence, so the oldest unfinished one runs on every rank and the limits cannot
// lock.
constexpr int kLargeAtOnce = 4;
constexpr int kSmallAtOnce = 64;
// Ranks enqueue in the same order.
constexpr int kOnDeviceAtOnce = 1;

// A bucket has many members: so many of them end at a time, while they are in the cache.
constexpr std::size_t kEndTogether = 32;

GroupOptions with_ranks(GroupOptions options, std::vector<int> ranks) {
  options.launch.ranks = std::move(ranks);
  return options;
}

// By rank of the group.
std::vector<int> nodes_of(const GroupOptions& options) {
  std::vector<int> nodes;
  for (const int rank : options.launch.ranks)
    nodes.push_back(options.nodes.empty() ? rank : options.nodes[static_cast<std::size_t>(rank)]);
  return nodes;
}

// The ranks as local ranks, where they are on one node and can share its memory.
std::optional<std::vector<int>> find_on_node(const std::shared_ptr<shm::Node>& node,
                                             const std::vector<int>& ranks) {
  if (node == nullptr || ranks.size() == 1 || ranks.size() > shm::ControlRing::kMostRanks)
    return std::nullopt;
  return node->find(ranks);
}

Status finish(const Operation& operation) {
  try {
    operation.finish();
  } catch (const std::exception& error) {
    return Status::internal("finishing tensor '" + operation.name + "': " + error.what());
  }
  return Status::ok();
}

}  // namespace

Group::Group(int process_set, SlotPool::Slot slot, std::vector<int> ranks,
             std::unique_ptr<Transport> transport, const std::shared_ptr<shm::Node>& node,
             const GroupOptions& options, Mailbox& mailbox, timeline::Tracing& tracing)
    : process_set_(process_set),
      size_(transport->size()),
      options_(with_ranks(options, std::move(ranks))),
      on_one_node_(find_on_node(node, options_.launch.ranks).has_value()),
      mailbox_(mailbox),
      tracing_(tracing),
      recorder_(process_set, options_.launch.ranks, tracing),
      transport_(std::move(transport)),
      backend_(make_backend(node, slot)),
      control_(make_control_channel(node, slot),
               {options_.launch.ranks, options.limits, options.cache_capacity}) {}

// In shared memory where all ranks are on one node; in stages where they are on several.
std::unique_ptr<Backend> Group::make_backend(const std::shared_ptr<shm::Node>& node,
                                             SlotPool::Slot slot) const {
  auto messages = make_message_backend(*transport_, kFirstFreeTag, options_.tuning);
  const auto on_node = [&](const std::vector<int>& local, std::unique_ptr<Backend> others) {
    return shm::make_backend(node, local, slot.number, slot.generation, std::move(others));
  };
  if (const auto local = find_on_node(node, options_.launch.ranks))
    return on_node(*local, std::move(messages));
  const auto hierarchy = find_hierarchy(nodes_of(options_), transport_->rank());
  if (!hierarchy) return messages;
  std::unique_ptr<Backend> within;
  if (hierarchy->local.size() > 1) {
    std::vector<int> world;
    for (const int rank : hierarchy->local)
      world.push_back(options_.launch.ranks[static_cast<std::size_t>(rank)]);
    within = on_node(node->find(world).value(), nullptr);
  }
  return make_hierarchical_backend(*hierarchy, *transport_, kFirstFreeTag, options_.tuning,
                                   std::move(within), std::move(messages));
}

std::unique_ptr<ControlChannel> Group::make_control_channel(const std::shared_ptr<shm::Node>& node,
                                                            SlotPool::Slot slot) const {
  const std::optional<std::vector<int>> local = find_on_node(node, options_.launch.ranks);
  if (!local) return make_message_control_channel(*transport_);
  return shm::make_control_channel(node, *local, slot.number, slot.generation);
}

Group::~Group() {
  for (const auto& [bucket, names] : bucket_names_) {
    for (const std::string& name : names) mailbox_.set_slot(process_set_, name, std::nullopt);
  }
}

void Group::submit(const std::shared_ptr<Operation>& operation) {
  const Participant::Token token = keep_pending(operation);
  recorder_.submitted(*operation);
  if (operation->descriptor.kind == OpKind::kJoin) return control_.participant().join(token);
  const bool known = control_.participant().submit(
      {token, operation->name, operation->descriptor, operation->absent, operation->transient,
       operation->submitted, !operation->lined_up,
       operation->slot ? operation->slot->place : BucketPlace{}});
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
  if (status.is_ok()) status = start_and_step_work(moved);
  if (status.is_ok() && !enqueued_.empty()) status = look_at_device(moved);
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
    // Its coordinator gave up waiting for this rank: nothing can be agreed upon any more.
    status = Status::peer_lost("rank " + std::to_string(options_.launch.ranks[0]) +
                               ", which coordinates, has shut kolo down; no further operation is "
                               "possible. Call kolo::shutdown() on every rank at the same point");
  }
  return status;
}

Status Group::keep_measures() {
  for (const auto& [rank, numbers] : control_.take_measures()) {
    timeline::Measures measures;
    if (!timeline::from_numbers(numbers, measures)) {
      return Status::internal("rank " + std::to_string(rank) + " sent " +
                              std::to_string(numbers.size()) +
                              " metrics, which this version does not expect; do all ranks run the "
                              "same version of kolo?");
    }
    tracing_.board().keep(options_.launch.ranks[static_cast<std::size_t>(rank)], measures);
  }
  return Status::ok();
}

Participant::Token Group::keep_pending(const std::shared_ptr<Operation>& operation) {
  if (free_tokens_.empty()) {
    pending_.emplace_back();
    free_tokens_.push_back(pending_.size());
  }
  const Participant::Token token = free_tokens_.back();
  free_tokens_.pop_back();
  pending_[token - 1] = operation;
  ++tracing_.load.negotiating;
  return token;
}

std::shared_ptr<Operation> Group::take_pending(Participant::Token token) {
  free_tokens_.push_back(token);
  --tracing_.load.negotiating;
  return std::exchange(pending_[token - 1], nullptr);
}

// It stands among what runs from the first, so that nobody waits in vain if this fails.
Status Group::carry_out(const Participant::Launch& launch) {
  RunningCollective& running = running_.emplace_back();
  running.sequence = launch.sequence;
  running.last_moved = Clock::now();
  bool anything = false;
  bool stands_in = false;
  running.members.reserve(launch.members.size());
  for (const Participant::Member& member : launch.members) {
    std::shared_ptr<Operation> operation =
        member.token == 0 ? make_stand_in(member.stand_in->name, member.stand_in->descriptor,
                                          backend_on(member.stand_in->descriptor.device),
                                          buckets_.count(launch.unit) > 0)
                          : take_pending(member.token);
    stands_in = stands_in || member.token == 0;
    anything = anything || !member.absent_everywhere;
    running.members.push_back({std::move(operation), member.absent_everywhere});
  }
  const std::shared_ptr<Operation> first = running.members.front().operation;
  Backend& backend = backend_on(anything ? first->descriptor.device : DeviceKind::kCpu);
  running.on_device = &backend != backend_.get();
  const Medium medium = backend.medium(first->descriptor.kind, first->descriptor.op);
  const auto bucket = buckets_.find(launch.unit);
  std::optional<OperationRecorder::Bucket> in_bucket;
  if (bucket != buckets_.end()) in_bucket = {launch.unit, bucket->second.bytes};
  recorder_.launched(running, medium, in_bucket);
  if (anything && traits_of(first->descriptor.kind).changes_process_sets) {
    changes_.push_back(first);
    running_.pop_back();
    return Status::ok();
  }
  if (anything) running.work = make_work(running, launch.unit, backend, stands_in);
  if (running.work == nullptr) {
    end(running);
    running_.pop_back();
    return Status::ok();
  }
  ++tracing_.load.queued;
  tracing_.add_load();
  running.small = !first->descriptor.has_own_rows() && running.bytes < options_.small_bytes;
  return Status::ok();
}

std::unique_ptr<Work> Group::make_work(RunningCollective& running, UnitId unit, Backend& backend,
                                       bool stands_in) {
  const Descriptor& descriptor = running.members.front().operation->descriptor;
  // Part 0 is for what a device's first work needs.
  const Turn turn{running.sequence, running.on_device ? 1U : 0U};
  std::unique_ptr<Work> work;
  if (const auto bucket = buckets_.find(unit); bucket != buckets_.end()) {
    const BucketBuffer& buffer = bucket->second;
    running.bytes = buffer.bytes;
    // A stand-in holds no name: the program may pack into the bucket's own buffer again, as soon as
    // the join is over and before this has ended.
    work =
        launch_bucket(backend, turn, running.members, buffer,
                      stands_in ? backend.make_buffer(buffer.bytes) : buffer.data, options_.launch);
  } else {
    running.bytes = descriptor.bytes();
    work = launch_single(backend, *backend_, turn, running.members.front(), options_.launch);
  }
  if (!running.on_device || work == nullptr) return work;
  return prepare_first({running.sequence, 0}, descriptor, std::move(work));
}

Status Group::carry_out(const Participant::Failure& failure) {
  const std::shared_ptr<Operation> operation = take_pending(failure.token);
  operation->let_go();  // it was not begun
  complete(operation, failure.status);
  return Status::ok();
}

Status Group::carry_out(const Participant::BucketBegins& bucket) {
  std::vector<std::size_t> sizes;
  for (const Participant::BucketMember& member : bucket.members)
    sizes.push_back(member.descriptor.bytes());
  BucketLayout layout = layout_bucket(sizes);
  const DeviceKind device = bucket.members.front().descriptor.device;
  BucketBuffer& buffer = buckets_[bucket.bucket];
  buffer.data = backend_on(device).make_buffer(layout.bytes);
  buffer.bytes = layout.bytes;
  buffer.offsets = std::move(layout.offsets);
  buffer.sizes = std::move(sizes);
  std::vector<std::string>& names = bucket_names_[bucket.bucket];
  // On a device all are packed at once, when the bucket is full.
  for (std::size_t i = 0; i < buffer.sizes.size() && device == DeviceKind::kCpu; ++i) {
    names.push_back(bucket.members[i].name);
    mailbox_.set_slot(process_set_, names.back(),
                      Slot{buffer.data, buffer.offsets[i], buffer.sizes[i], {bucket.bucket, i}});
  }
  return Status::ok();
}

Status Group::carry_out(const Participant::BucketEnds& bucket) {
  for (const std::string& name : bucket_names_[bucket.bucket])
    mailbox_.set_slot(process_set_, name, std::nullopt);
  bucket_names_.erase(bucket.bucket);
  buckets_.erase(bucket.bucket);
  return Status::ok();
}

Status Group::carry_out(const Participant::Joined& joined) {
  const std::shared_ptr<Operation> operation = take_pending(joined.token);
  operation->number = options_.launch.ranks[static_cast<std::size_t>(joined.last_rank)];
  complete(operation, Status::ok());
  return Status::ok();
}

Status Group::carry_out(const Participant::Closed& /*closed*/) {
  closed_ = true;
  return Status::ok();
}

Status Group::carry_out(const Participant::Stalled& stalled) {
  told_of_stalls_ = Clock::now();
  tracing_.meters().stalled();
  tracing_.ask_for_dump("stall: " + stalled.text);
  return Status::ok();
}

Status Group::start_and_step_work(bool& moved) {
  int small = 0;
  int large = 0;
  int on_device = 0;
  for (auto running = running_.begin(); running != running_.end();) {
    if (running->sequence - running_.front().sequence >= Backend::kWindow) break;
    int& at_once = running->on_device ? on_device : running->small ? small : large;
    const int most = running->on_device ? kOnDeviceAtOnce
                     : running->small   ? kSmallAtOnce
                                        : kLargeAtOnce;
    if (at_once == most) {
      ++running;
      continue;
    }
    ++at_once;
    if (Status status = step(*running, moved); !status.is_ok()) return status;
    if (running->work != nullptr) {
      ++running;
      continue;
    }
    if (running->on_device) --at_once;
    running = running_.erase(running);
  }
  return Status::ok();
}

Progress Group::start_or_step(RunningCollective& running, Status& status) {
  try {
    if (!std::exchange(running.started, true)) {
      running.last_moved = Clock::now();
      recorder_.started(running);
      status = start(running);
    }
    return status.is_ok() ? running.work->step(status) : Progress::kFailed;
  } catch (const std::exception& error) {  // memory for a result, say
    status = Status::internal(error.what());
    return Progress::kFailed;
  }
}

// Steps one work and ends it if it is done (then its work is null).
Status Group::step(RunningCollective& running, bool& moved) {
  Status status;
  switch (start_or_step(running, status)) {
    case Progress::kWaiting:
      return Status::ok();
    case Progress::kAdvanced:
      running.last_moved = Clock::now();
      moved = true;
      return Status::ok();
    case Progress::kDone:
      running.buffer_times = running.work->buffer_times();
      moved = true;
      if (running.on_device) return end_on_device(running);
      running.work.reset();
      end(running);
      return Status::ok();
    case Progress::kFailed:
      break;
  }
  if (running.on_device) status = name_lost_rank(status);
  return Status(status.code(), what_runs(running.members) + ": " + status.message());
}

void Group::end(const RunningCollective& running) {
  recorder_.ended(running);
  const std::span<const LaunchMember> members(running.members);
  for (std::size_t begin = 0; begin < members.size(); begin += kEndTogether) {
    const auto part = members.subspan(begin, std::min(kEndTogether, members.size() - begin));
    tell(part, finish_all(part));
  }
}

// By operation, what went wrong.
Group::Unfinished Group::finish_all(std::span<const LaunchMember> members) {
  Unfinished unfinished;
  for (const LaunchMember& member : members) {
    Operation* const operation = member.operation.get();
    if (operation->stand_in || !operation->finish || member.absent_everywhere) continue;
    Status status = finish(*operation);
    if (!status.is_ok()) unfinished.emplace(operation, std::move(status));
  }
  return unfinished;
}

// A result is finished before its name is free, and that before anyone is told. The mailbox's lock
// is taken once for all.
void Group::tell(std::span<const LaunchMember> members, const Unfinished& unfinished) {
  over_.clear();
  for (const LaunchMember& member : members) {
    if (!member.operation->stand_in) over_.push_back(member.operation.get());
  }
  mailbox_.release(over_);
  for (const LaunchMember& member : members) {
    Operation* const operation = member.operation.get();
    if (operation->stand_in) continue;
    const auto failed = unfinished.find(operation);
    recorder_.member_ended(member, failed == unfinished.end());
    operation->complete(failed == unfinished.end() ? Status::ok() : failed->second,
                        member.absent_everywhere);
  }
}

void Group::complete(const std::shared_ptr<Operation>& operation, const Status& status) {
  if (operation->stand_in) return;
  recorder_.ended(*operation, status);
  mailbox_.release({operation.get()});
  if (status.code() == StatusCode::kPeerLost)
    tell_of_lost_peer();  // before the program hears of it
  operation->complete(status, false);
}

bool Group::finished() const {
  return closed_ && !any_pending() && running_.empty() && enqueued_.empty() && !control_.sending();
}

std::string Group::stop_waiting() {
  closed_ = true;
  return control_.say_bye();
}

void Group::fail_all(const Status& status) {
  free_tokens_.clear();
  for (const std::shared_ptr<Operation>& pending : std::exchange(pending_, {})) {
    if (pending == nullptr) continue;
    complete(pending, status);
    failed_.push_back(pending);
  }
  for (const std::shared_ptr<Operation>& operation : std::exchange(changes_, {}))
    complete(operation, status);
  for (RunningCollective& running : running_) {
    for (const LaunchMember& member : running.members) complete(member.operation, status);
  }
}

}  // namespace kolo
