#include "coordinator/engine.hpp"

#include <pthread.h>
#include <sys/prctl.h>

#include <string>
#include <utility>

#include "core/log.hpp"

namespace kolo {
namespace {

// How many large collectives share the links at once: enough for one to pack or reduce while others
// travel. Small ones pass them and are bounded for memory's sake only. Ranks start work in the
// order of its sequence, so the oldest unfinished one runs on every rank and the limits cannot
// lock.
constexpr int kLargeAtOnce = 4;
constexpr int kSmallAtOnce = 64;

// How long the coordinator sleeps at most while its own program submits nothing: other ranks may
// leave or fail meanwhile.
constexpr Clock::duration kCoordinatorNap = std::chrono::milliseconds(100);

// Keeps an object until the process ends, reachable, so that nobody takes it for a leak.
template <typename Object>
void leave_to_process_end(Object object) {
  static Mutex mutex;
  static auto* const left = new std::vector<Object>;
  const MutexLock lock(mutex);
  left->push_back(std::move(object));
}

// Without this the kernel may add 50 us to each short sleep.
void prepare_thread() {
  pthread_setname_np(pthread_self(), "kolo-engine");
  if (prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL) != 0)
    log::debug("prctl(PR_SET_TIMERSLACK) failed");
}

Status shut_down_status() {
  return Status::not_initialized(
      "kolo was shut down on this rank; call kolo::init() again before further operations");
}

std::string what_runs(const std::vector<LaunchMember>& members) {
  const Operation& first = *members.front().operation;
  std::string text = std::string(name_of(first.descriptor.kind)) + " of '" + first.name + "'";
  if (members.size() > 1) text += " and " + std::to_string(members.size() - 1) + " more";
  return text;
}

}  // namespace

Engine::Engine(std::unique_ptr<Transport> transport, const Options& options)
    : options_(options),
      rank_(transport->rank()),
      size_(transport->size()),
      transport_(std::move(transport)),
      control_(std::make_unique<ControlPlane>(*transport_, options.limits, options.cache_capacity)),
      backoff_(options.backoff),
      thread_([this] { run(); }) {}

Engine::~Engine() {
  shut_down();
}

Status Engine::submit(const std::shared_ptr<Operation>& operation) {
  return mailbox_.submit(operation);
}

Status Engine::wait(const std::shared_ptr<Operation>& operation,
                    std::optional<Clock::duration> timeout) {
  mailbox_.wanted(operation);
  std::optional<Clock::time_point> deadline;
  if (timeout) deadline = Clock::now() + *timeout;
  if (!operation->done()) {
    const Mailbox::Waiter waiter(mailbox_);
    if (!operation->wait_until(deadline)) {
      return Status::timeout(std::string(name_of(operation->descriptor.kind)) + " of tensor '" +
                             operation->name + "' did not end on rank " + std::to_string(rank_) +
                             " within " + to_text(*timeout) +
                             ": another rank has not submitted it yet or is slow. It goes on; wait "
                             "again for its result");
    }
  }
  return operation->status();
}

bool Engine::ready(const std::shared_ptr<Operation>& operation) {
  mailbox_.wanted(operation);
  return operation->done();
}

bool Engine::shut_down() {
  if (!thread_.joinable()) return !broken_;
  mailbox_.shut_down(shut_down_status());
  thread_.join();
  if (broken_) {
    leave_to_process_end(std::move(running_));
    leave_to_process_end(std::move(control_));
    leave_to_process_end(std::move(transport_));
  }
  // Here and not with the last handle that refers to this engine: MPI may have been finalized by
  // then.
  control_.reset();
  transport_.reset();
  return !broken_;
}

void Engine::run() {
  prepare_thread();
  while (true) {
    if (turn()) {
      backoff_.reset();
      continue;
    }
    watch_timers();
    if (leave_deadline_ && nothing_to_do()) break;
    park();
  }
}

bool Engine::turn() {
  bool moved = drain_mailbox();
  if (!broken_) moved = advance_control() || moved;
  if (!broken_) moved = start_and_step_work() || moved;
  return moved;
}

bool Engine::drain_mailbox() {
  mailbox_.take(entries_);
  for (const Mailbox::Entry& entry : entries_) {
    Participant& participant = control_->participant();
    switch (entry.kind) {
      case Mailbox::Entry::Kind::kSubmit: {
        if (broken_) {  // accepted while the engine broke
          complete(entry.operation, broken_status_, false);
          break;
        }
        const Operation& operation = *entry.operation;
        const Participant::Token token = next_token_++;
        pending_[token] = entry.operation;
        if (operation.descriptor.kind == OpKind::kJoin) {
          participant.join(token);
          break;
        }
        participant.submit({token, operation.name, operation.descriptor, operation.absent,
                            operation.transient, Clock::now()});
        break;
      }
      case Mailbox::Entry::Kind::kBoundary:
        participant.boundary();
        break;
      case Mailbox::Entry::Kind::kWanted:
        participant.wanted(entry.operation->name);
        break;
      case Mailbox::Entry::Kind::kShutdown:
        participant.leave();
        leave_deadline_ = Clock::now() + options_.shutdown_timeout;
        break;
    }
  }
  return !entries_.empty();
}

bool Engine::advance_control() {
  bool moved = false;
  std::vector<Participant::Action> actions;
  const Status status = control_->advance(moved, actions);
  for (const Participant::Action& action : actions) {
    if (broken_ || closed_) break;  // everything in flight has been ended
    std::visit([this](const auto& body) { carry_out(body); }, action);
  }
  if (!status.is_ok()) break_down(status);
  return moved;
}

std::shared_ptr<Operation> Engine::take_pending(Participant::Token token) {
  const auto found = pending_.find(token);
  std::shared_ptr<Operation> operation = std::move(found->second);
  pending_.erase(found);
  return operation;
}

void Engine::carry_out(const Participant::Launch& launch) {
  Running running;
  running.sequence = launch.sequence;
  std::size_t bytes = 0;
  bool anything = false;
  for (const Participant::Member& member : launch.members) {
    std::shared_ptr<Operation> operation =
        member.token == 0 ? make_stand_in(member.name, member.descriptor, size_)
                          : take_pending(member.token);
    bytes += operation->descriptor.bytes();
    anything = anything || !member.absent_everywhere;
    running.members.push_back({std::move(operation), member.absent_everywhere});
  }
  if (!anything) return end(running);
  const Descriptor& first = running.members.front().operation->descriptor;
  const Tag tags = transport_->max_tag() - ControlPlane::kFirstFreeTag + 1;
  const Tag tag = ControlPlane::kFirstFreeTag + static_cast<Tag>(launch.sequence % tags);
  const auto bucket = buckets_.find(launch.unit);
  running.work =
      bucket == buckets_.end()
          ? launch_single(*transport_, tag, running.members.front(), options_.launch)
          : launch_bucket(*transport_, tag, running.members, bucket->second, options_.launch);
  if (running.work == nullptr) return end(running);
  running.small = !first.has_own_rows() && bytes < options_.launch.tuning.ring_threshold_bytes;
  running.last_moved = Clock::now();
  running_.push_back(std::move(running));
}

void Engine::carry_out(const Participant::Failure& failure) {
  complete(take_pending(failure.token), failure.status, false);
}

void Engine::carry_out(const Participant::BucketBegins& bucket) {
  std::vector<std::size_t> sizes;
  for (const Participant::BucketMember& member : bucket.members)
    sizes.push_back(member.descriptor.bytes());
  BucketLayout layout = layout_bucket(sizes);
  BucketBuffer& buffer = buckets_[bucket.bucket];
  buffer.data = std::shared_ptr<std::byte[]>(new std::byte[layout.bytes]());
  buffer.bytes = layout.bytes;
  buffer.offsets = std::move(layout.offsets);
  std::vector<std::string>& names = bucket_names_[bucket.bucket];
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    names.push_back(bucket.members[i].name);
    mailbox_.set_slot(names.back(), Slot{buffer.data, buffer.offsets[i], sizes[i]});
  }
}

void Engine::carry_out(const Participant::BucketEnds& bucket) {
  for (const std::string& name : bucket_names_[bucket.bucket])
    mailbox_.set_slot(name, std::nullopt);
  bucket_names_.erase(bucket.bucket);
  buckets_.erase(bucket.bucket);
}

void Engine::carry_out(const Participant::Joined& joined) {
  const std::shared_ptr<Operation> operation = take_pending(joined.token);
  operation->last_joined_rank = joined.last_rank;
  complete(operation, Status::ok(), false);
}

void Engine::carry_out(const Participant::Closed& /*closed*/) {
  closed_ = true;
  if (leave_deadline_) return;
  // The coordinator gave up waiting for this rank: nothing can be agreed upon any more.
  break_down(
      Status::peer_lost("rank 0, which coordinates, has shut kolo down; no further operation is "
                        "possible. Call kolo::shutdown() on every rank at the same point"));
}

bool Engine::start_and_step_work() {
  bool moved = false;
  int small = 0;
  int large = 0;
  for (auto running = running_.begin(); running != running_.end() && !broken_;) {
    int& at_once = running->small ? small : large;
    if (++at_once > (running->small ? kSmallAtOnce : kLargeAtOnce)) {
      ++running;
      continue;
    }
    moved = step(*running) || moved;
    if (running->work != nullptr) {
      ++running;
    } else {
      running = running_.erase(running);
    }
  }
  return moved;
}

Progress Engine::start_or_step(Running& running, Status& status) {
  try {
    if (!std::exchange(running.started, true)) {
      running.last_moved = Clock::now();
      status = running.work->start();
    }
    return status.is_ok() ? running.work->step(status) : Progress::kFailed;
  } catch (const std::exception& error) {  // memory for a result, say
    status = Status::internal(error.what());
    return Progress::kFailed;
  }
}

// Steps one work and ends it if it is done (then its work is null).
bool Engine::step(Running& running) {
  Status status;
  switch (start_or_step(running, status)) {
    case Progress::kWaiting:
      return false;
    case Progress::kAdvanced:
      running.last_moved = Clock::now();
      return true;
    case Progress::kDone:
      running.work.reset();
      end(running);
      return true;
    case Progress::kFailed:
      break;
  }
  break_down(Status(status.code(), what_runs(running.members) + ": " + status.message()));
  return true;
}

void Engine::end(Running& running) {
  for (LaunchMember& member : running.members) {
    complete(member.operation, Status::ok(), member.absent_everywhere);
  }
}

void Engine::complete(const std::shared_ptr<Operation>& operation, Status status,
                      bool absent_everywhere) {
  if (operation->stand_in) return;
  if (status.is_ok() && operation->finish && !absent_everywhere) {
    try {
      operation->finish();
    } catch (const std::exception& error) {
      status = Status::internal("finishing tensor '" + operation->name + "': " + error.what());
    }
  }
  mailbox_.release(operation->name);
  operation->complete(std::move(status), absent_everywhere);
}

void Engine::watch_timers() {
  if (broken_) return;
  const Clock::time_point now = Clock::now();
  if (now >= next_look_at_held_) watch_held_tensors(now);
  for (const Running& running : running_) {
    if (!running.started || now - running.last_moved <= options_.collective_timeout) continue;
    break_down(Status::peer_lost(
        what_runs(running.members) + " started on every rank but moved no byte on rank " +
        std::to_string(rank_) + " for " + to_text(options_.collective_timeout) +
        ": a peer or the network is gone. See KOLO_COLLECTIVE_TIMEOUT_SECONDS"));
    return;
  }
  watch_shutdown();
}

// A program may wait in ways that this engine does not see: for another rank's message, which that
// one sends after its own wait.
void Engine::watch_held_tensors(Clock::time_point now) {
  next_look_at_held_ = now + options_.fusion_hold / 8;
  const std::size_t given_up = control_->participant().flush(now - options_.fusion_hold);
  if (given_up == 0) return;
  log::warning(std::to_string(given_up) +
               " bucket(s) were given up, since a tensor was submitted " +
               to_text(options_.fusion_hold) +
               " ago and others of its bucket still are not (KOLO_FUSION_HOLD_SECONDS); results "
               "stay right, but another run may fuse differently");
}

void Engine::watch_shutdown() {
  if (!leave_deadline_ || closed_ || Clock::now() < *leave_deadline_) return;
  Negotiator* negotiator = control_->negotiator();
  log::warning("shutdown: " +
               (negotiator != nullptr ? rank_list(negotiator->remaining_ranks())
                                      : std::string("other ranks")) +
               " did not shut down within " + to_text(options_.shutdown_timeout) +
               "; going on without (KOLO_SHUTDOWN_TIMEOUT_SECONDS)");
  closed_ = true;
  if (negotiator != nullptr) control_->say_bye();
  const Status status = shut_down_status();
  for (const auto& [token, operation] : std::exchange(pending_, {}))
    complete(operation, status, false);
  if (!running_.empty()) break_down(status);
}

// Ends everything with the status. Work in flight stays where it is, with what it refers to, also
// beyond shut_down(): messages may still be under way.
void Engine::break_down(const Status& status) {
  if (std::exchange(broken_, true)) return;
  control_->say_abort(status.message());
  const Status told(status.code(),
                    status.message() + " [on rank " + std::to_string(rank_) +
                        "; all operations in flight have failed, and further ones will: "
                        "restart the job]");
  broken_status_ = told;
  log::error(told.message());
  mailbox_.close(told);
  for (const auto& [token, operation] : std::exchange(pending_, {}))
    complete(operation, told, false);
  for (Running& running : running_) {
    for (const LaunchMember& member : running.members) complete(member.operation, told, false);
  }
}

// While shutting down: whether the thread may end.
bool Engine::nothing_to_do() const {
  if (broken_) return true;
  return closed_ && pending_.empty() && running_.empty() && !control_->sending();
}

void Engine::park() {
  const bool outstanding =
      !pending_.empty() || !running_.empty() || control_->sending() || leave_deadline_;
  if (broken_ || !outstanding) {
    backoff_.reset();
    // The coordinator is needed by others also while this rank's program does something else.
    const bool needed = !broken_ && !closed_ && size_ > 1 && control_->negotiator() != nullptr;
    mailbox_.park(needed ? std::optional(Clock::now() + kCoordinatorNap) : std::nullopt);
    return;
  }
  const std::optional<Clock::duration> sleep =
      backoff_.pause(mailbox_.somebody_waits() || leave_deadline_);
  if (sleep) mailbox_.park(Clock::now() + *sleep);
}

}  // namespace kolo
