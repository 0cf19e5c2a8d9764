#include "coordinator/group.hpp"

#include <algorithm>
#include <utility>

#include "collectives/hierarchy/backend.hpp"
#include "collectives/messages/backend.hpp"
#include "collectives/messages/control_channel.hpp"
#include "collectives/shm/backend.hpp"
#include "collectives/shm/control_channel.hpp"
#include "core/log.hpp"

namespace kolo {
namespace {

// How many large collectives share the links at once: enough for one to pack or reduce while others
// travel. Small ones pass them and are bounded for memory's sake only. Ranks start work in the
// order of its sequence, so the oldest unfinished one runs on every rank and the limits cannot
// lock.
constexpr int kLargeAtOnce = 4;
constexpr int kSmallAtOnce = 64;

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

bool changes_process_sets(OpKind kind) {
  return kind == OpKind::kAddProcessSet || kind == OpKind::kRemoveProcessSet;
}

}  // namespace

Group::Group(int process_set, int slot, std::vector<int> ranks,
             std::unique_ptr<Transport> transport, const std::shared_ptr<shm::Node>& node,
             const GroupOptions& options, Mailbox& mailbox, timeline::Tracing& tracing)
    : process_set_(process_set),
      size_(transport->size()),
      options_(with_ranks(options, std::move(ranks))),
      on_one_node_(find_on_node(node, options_.launch.ranks).has_value()),
      mailbox_(mailbox),
      tracing_(tracing),
      transport_(std::move(transport)),
      backend_(make_backend(node, slot)),
      control_(make_control_channel(node, slot),
               {options_.launch.ranks, options.limits, options.cache_capacity}) {}

// In shared memory where all ranks are on one node; in stages where they are on several.
std::unique_ptr<Backend> Group::make_backend(const std::shared_ptr<shm::Node>& node,
                                             int slot) const {
  auto messages = make_message_backend(*transport_, kFirstFreeTag, options_.tuning);
  const auto on_node = [&](const std::vector<int>& local, std::unique_ptr<Backend> others) {
    return shm::make_backend(node, local, slot, static_cast<std::uint64_t>(process_set_),
                             std::move(others));
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
                                                            int slot) const {
  const std::optional<std::vector<int>> local = find_on_node(node, options_.launch.ranks);
  if (!local) return make_message_control_channel(*transport_);
  return shm::make_control_channel(node, *local, slot, static_cast<std::uint64_t>(process_set_));
}

Group::~Group() {
  for (const auto& [bucket, names] : bucket_names_) {
    for (const std::string& name : names) mailbox_.set_slot(process_set_, name, std::nullopt);
  }
}

void Group::submit(const std::shared_ptr<Operation>& operation) {
  const Participant::Token token = keep_pending(operation);
  record_submission(*operation);
  if (operation->descriptor.kind == OpKind::kJoin) return control_.participant().join(token);
  const bool known = control_.participant().submit(
      {token, operation->name, operation->descriptor, operation->absent, operation->transient,
       operation->submitted, !operation->lined_up,
       operation->slot ? operation->slot->place : BucketPlace{}});
  if (operation->descriptor.kind != OpKind::kClock) tracing_.meters().submitted(known);
}

void Group::leave() {
  if (leaving_) return;
  leaving_ = Clock::now();
  control_.participant().leave();
}

Status Group::turn(bool& moved) {
  Status status = advance_control(moved);
  if (status.is_ok()) status = start_and_step_work(moved);
  return status;
}

Status Group::advance_control(bool& moved) {
  std::vector<Participant::Action> actions;
  control_.keep_arrivals(tracing_.on());
  Status status = control_.advance(moved, actions);
  record_arrivals();
  if (status.is_ok()) status = record_measures();
  for (const Participant::Action& action : actions) {
    if (closed_) break;
    std::visit([this](const auto& body) { carry_out(body); }, action);
  }
  if (status.is_ok() && closed_ && !leaving_) {
    // Its coordinator gave up waiting for this rank: nothing can be agreed upon any more.
    status = Status::peer_lost("rank " + std::to_string(options_.launch.ranks[0]) +
                               ", which coordinates, has shut kolo down; no further operation is "
                               "possible. Call kolo::shutdown() on every rank at the same point");
  }
  return status;
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

void Group::carry_out(const Participant::Launch& launch) {
  Running running;
  running.sequence = launch.sequence;
  running.last_moved = Clock::now();
  bool anything = false;
  bool stands_in = false;
  running.members.reserve(launch.members.size());
  for (const Participant::Member& member : launch.members) {
    std::shared_ptr<Operation> operation =
        member.token == 0 ? make_stand_in(member.stand_in->name, member.stand_in->descriptor, size_)
                          : take_pending(member.token);
    stands_in = stands_in || member.token == 0;
    anything = anything || !member.absent_everywhere;
    running.members.push_back({std::move(operation), member.absent_everywhere});
  }
  record_launch(running, launch);
  if (!anything) return end(running);
  const std::shared_ptr<Operation>& first = running.members.front().operation;
  if (changes_process_sets(first->descriptor.kind)) return changes_.push_back(first);
  const Turn turn{launch.sequence, 0};
  std::size_t bytes = 0;
  if (const auto bucket = buckets_.find(launch.unit); bucket != buckets_.end()) {
    const BucketBuffer& buffer = bucket->second;
    bytes = buffer.bytes;
    // A stand-in holds no name: the program may pack into the bucket's own buffer again, as soon as
    // the join is over and before this has ended.
    running.work =
        launch_bucket(*backend_, turn, running.members, buffer,
                      stands_in ? backend_->make_buffer(bytes) : buffer.data, options_.launch);
  } else {
    bytes = first->descriptor.bytes();
    running.work = launch_single(*backend_, turn, running.members.front(), options_.launch);
  }
  if (running.work == nullptr) return end(running);
  running.bytes = bytes;
  ++tracing_.load.queued;
  tracing_.add_load();
  running.small = !first->descriptor.has_own_rows() && bytes < options_.small_bytes;
  running_.push_back(std::move(running));
}

void Group::carry_out(const Participant::Failure& failure) {
  const std::shared_ptr<Operation> operation = take_pending(failure.token);
  operation->let_go();  // it was not begun
  complete(operation, failure.status);
}

void Group::carry_out(const Participant::BucketBegins& bucket) {
  std::vector<std::size_t> sizes;
  for (const Participant::BucketMember& member : bucket.members)
    sizes.push_back(member.descriptor.bytes());
  BucketLayout layout = layout_bucket(sizes);
  BucketBuffer& buffer = buckets_[bucket.bucket];
  buffer.data = backend_->make_buffer(layout.bytes);
  buffer.bytes = layout.bytes;
  buffer.offsets = std::move(layout.offsets);
  buffer.sizes = std::move(sizes);
  std::vector<std::string>& names = bucket_names_[bucket.bucket];
  for (std::size_t i = 0; i < buffer.sizes.size(); ++i) {
    names.push_back(bucket.members[i].name);
    mailbox_.set_slot(process_set_, names.back(),
                      Slot{buffer.data, buffer.offsets[i], buffer.sizes[i], {bucket.bucket, i}});
  }
}

void Group::carry_out(const Participant::BucketEnds& bucket) {
  for (const std::string& name : bucket_names_[bucket.bucket])
    mailbox_.set_slot(process_set_, name, std::nullopt);
  bucket_names_.erase(bucket.bucket);
  buckets_.erase(bucket.bucket);
}

void Group::carry_out(const Participant::Joined& joined) {
  const std::shared_ptr<Operation> operation = take_pending(joined.token);
  operation->number = options_.launch.ranks[static_cast<std::size_t>(joined.last_rank)];
  complete(operation, Status::ok());
}

void Group::carry_out(const Participant::Closed& /*closed*/) {
  closed_ = true;
}

void Group::carry_out(const Participant::Stalled& stalled) {
  told_of_stalls_ = Clock::now();
  tracing_.meters().stalled();
  tracing_.ask_for_dump("stall: " + stalled.text);
}

Status Group::start_and_step_work(bool& moved) {
  int small = 0;
  int large = 0;
  for (auto running = running_.begin(); running != running_.end();) {
    if (running->sequence - running_.front().sequence >= Backend::kWindow) break;
    int& at_once = running->small ? small : large;
    if (++at_once > (running->small ? kSmallAtOnce : kLargeAtOnce)) {
      ++running;
      continue;
    }
    if (Status status = step(*running, moved); !status.is_ok()) return status;
    running = running->work != nullptr ? std::next(running) : running_.erase(running);
  }
  return Status::ok();
}

Progress Group::start_or_step(Running& running, Status& status) {
  try {
    if (!std::exchange(running.started, true)) {
      running.last_moved = Clock::now();
      record_start(running);
      status = running.work->start();
    }
    return status.is_ok() ? running.work->step(status) : Progress::kFailed;
  } catch (const std::exception& error) {  // memory for a result, say
    status = Status::internal(error.what());
    return Progress::kFailed;
  }
}

// Steps one work and ends it if it is done (then its work is null).
Status Group::step(Running& running, bool& moved) {
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
      running.work.reset();
      end(running);
      moved = true;
      return Status::ok();
    case Progress::kFailed:
      break;
  }
  return Status(status.code(), what_runs(running.members) + ": " + status.message());
}

void Group::end(const Running& running) {
  record_end(running);
  const std::vector<LaunchMember>& members = running.members;
  for (std::size_t begin = 0; begin < members.size(); begin += kEndTogether) {
    const std::size_t count = std::min(kEndTogether, members.size() - begin);
    end(std::span(members).subspan(begin, count));
  }
}

// In three rounds: a result is finished before its name is free, and that before anyone is told.
// The mailbox's lock is taken once for all.
void Group::end(std::span<const LaunchMember> members) {
  over_.clear();
  std::unordered_map<Operation*, Status> unfinished;
  for (const LaunchMember& member : members) {
    Operation* const operation = member.operation.get();
    if (operation->stand_in) continue;
    over_.push_back(operation);
    if (!operation->finish || member.absent_everywhere) continue;
    Status status = finish(*operation);
    if (!status.is_ok()) unfinished.emplace(operation, std::move(status));
  }
  mailbox_.release(over_);
  for (const LaunchMember& member : members) {
    Operation* const operation = member.operation.get();
    if (operation->stand_in) continue;
    const auto failed = unfinished.find(operation);
    count_end(member, failed == unfinished.end());
    operation->complete(failed == unfinished.end() ? Status::ok() : failed->second,
                        member.absent_everywhere);
  }
}

void Group::complete(const std::shared_ptr<Operation>& operation, const Status& status) {
  if (operation->stand_in) return;
  record_end(*operation, status);
  mailbox_.release({operation.get()});
  operation->complete(status, false);
}

bool Group::finished() const {
  return closed_ && !any_pending() && running_.empty() && !control_.sending();
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
  for (Running& running : running_) {
    for (const LaunchMember& member : running.members) complete(member.operation, status);
  }
}

}  // namespace kolo
