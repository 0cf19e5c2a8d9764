#include "engine/engine.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "core/launched.hpp"
#include "core/log.hpp"

namespace kolo {
namespace {

// Minimum interval between stall checks on an idle rank.
constexpr Clock::duration kLeastWatch = std::chrono::milliseconds(10);

// Time for which a rank that gives up waiting for others keeps sending its last messages.
constexpr Clock::duration kLastWords = std::chrono::seconds(1);

// Longest time for which the program does not learn of a failure, while its record is written.
constexpr Clock::duration kPatienceWithDisk = std::chrono::seconds(1);

// An engine with something to do makes a turn every few milliseconds.
constexpr Clock::duration kFrozen = std::chrono::seconds(2);

// Keeps an object until the process ends. It stays reachable, so that leak checkers do not report
// it.
template <typename Object>
void leave_to_process_end(Object object) {
  static Mutex mutex;
  static auto* const left = new std::vector<Object>;
  const MutexLock lock(mutex);
  left->push_back(std::move(object));
}

Status shut_down_status() {
  return Status::not_initialized(
      "kolo was shut down on this rank; call kolo::init() again before further operations");
}

}  // namespace

Engine::Engine(std::unique_ptr<Transport> transport, std::shared_ptr<shm::Node> node,
               const Options& options)
    : options_(options),
      rank_(transport->rank()),
      size_(transport->size()),
      tracing_(options.tracing != nullptr ? options.tracing
                                          : std::make_shared<timeline::Tracing>()),
      driver_(*this, options.backoff, options.submitters_drive,
              node == nullptr ? nullptr : node->own_doorbell()),
      mailbox_(driver_.parking()),
      sets_(std::make_unique<ProcessSets>(std::move(transport), std::move(node), options_.group,
                                          mailbox_, *tracing_)) {
  driver_.start();
}

Engine::~Engine() {
  shut_down();
}

thread_local int Engine::WaitsAtOnce::depth_ = 0;
thread_local Engine::WaitsForSeveral* Engine::WaitsForSeveral::current_ = nullptr;

Engine::WaitsForSeveral* Engine::WaitsForSeveral::of(const Engine& engine) {
  return current_ != nullptr && &current_->engine_ == &engine ? current_ : nullptr;
}

Engine::WaitsForSeveral::~WaitsForSeveral() {
  current_ = nullptr;
  if (drives_) engine_.driver_.end();
}

Status Engine::submit(const std::shared_ptr<Operation>& operation) {
  const bool waits = WaitsAtOnce::of_this_thread();
  bool packed = false;
  operation->submitted = Clock::now();
  // The timeline's own readings of the clock are not the program's doing.
  if (!traits_of(operation->descriptor.kind).is_internal) tracing_->submitted(operation->submitted);
  operation->step = tracing_->step();
  Status status = mailbox_.submit(operation, packed, waits);
  if (!status.is_ok()) operation->let_go();
  if (!waits && status.is_ok()) driver_.submitted(packed);
  return status;
}

Status Engine::wait(const std::shared_ptr<Operation>& operation,
                    std::optional<Clock::duration> timeout) {
  if (operation->done()) return wait_in_silence(operation, timeout);
  // A thread that waits at once has just read the clock.
  const Nanoseconds begin =
      nanoseconds(WaitsAtOnce::of_this_thread() ? operation->submitted : Clock::now());
  tracing_->begin_wait();
  Status status = wait_in_silence(operation, timeout);
  tracing_->end_wait();
  const Nanoseconds end = nanoseconds(Clock::now());
  if (!traits_of(operation->descriptor.kind).is_internal) tracing_->meters().waited(end - begin);
  if (!tracing_->on()) return status;
  timeline::ScopeEvent event;
  event.kind = timeline::ScopeEvent::Kind::kWait;
  event.name = timeline::Name(operation->name);
  event.step = tracing_->step();
  event.thread = timeline::this_thread();
  event.begin = begin;
  event.end = end;
  tracing_->add(event);
  return status;
}

Status Engine::wait_in_silence(const std::shared_ptr<Operation>& operation,
                               std::optional<Clock::duration> timeout) {
  std::optional<Clock::time_point> deadline;
  if (timeout) deadline = Clock::now() + *timeout;
  WaitsForSeveral* const several = WaitsForSeveral::of(*this);
  const bool goes_on = several != nullptr && several->drives_;
  const bool drives = !operation->done() && (goes_on || driver_.begin());
  mailbox_.wanted(operation, drives);
  if (drives) {
    if (several != nullptr) several->drives_ = true;
    driver_.drive(*operation, deadline, several == nullptr);
  }
  if (operation->done() || driver_.wait(*operation, deadline)) return operation->status();
  return Status::timeout(std::string(name_of(operation->descriptor.kind)) + " of tensor '" +
                         operation->name + "' did not end on rank " + std::to_string(rank_) +
                         " within " + to_text(*timeout) +
                         ": another rank has not submitted it yet or is slow. The operation "
                         "goes on; wait again for its result");
}

bool Engine::ready(const std::shared_ptr<Operation>& operation) {
  mailbox_.wanted(operation);
  return operation->done();
}

bool Engine::shut_down() {
  if (driver_.joinable()) {
    mailbox_.shut_down(shut_down_status());
    driver_.join();
  }
  const MutexLock seat(driver_.seat());
  if (std::exchange(ended_, true)) return !broken_ && !waits_no_more_;
  if (broken_ || waits_no_more_) leave_to_process_end(std::move(sets_));
  // Not left to the last handle that refers to this engine, because MPI may have been finalized by
  // then.
  sets_.reset();
  return !broken_ && !waits_no_more_;
}

// A long time since the last turn means that the process was stopped (SIGSTOP, a suspended job).
bool Engine::turn() {
  const Clock::time_point now = Clock::now();
  if (now - std::exchange(turned_, now) > kFrozen) {
    for (const auto& [number, group] : sets_->groups()) group->count_from(now);
  }
  bool moved = drain_mailbox();
  if (!broken_) moved = turn_groups() || moved;
  return moved;
}

bool Engine::drain_mailbox() {
  mailbox_.take(entries_);
  if (entries_.empty()) return false;
  for (const Mailbox::Entry& entry : entries_) {
    switch (entry.kind) {
      case Mailbox::Entry::Kind::kSubmit:
        submit_to_group(entry.operation);
        break;
      case Mailbox::Entry::Kind::kBoundary:
        if (Group* of = sets_->find(entry.process_set)) of->boundary();
        break;
      case Mailbox::Entry::Kind::kWanted:
        if (Group* of = sets_->find(entry.operation->process_set)) of->wanted(*entry.operation);
        break;
      case Mailbox::Entry::Kind::kShutdown:
        leave();
        break;
    }
  }
  return true;
}

void Engine::submit_to_group(const std::shared_ptr<Operation>& operation) {
  if (!on_device_ && operation->on_device != nullptr) {
    on_device_ = true;
    driver_.leave_computing_to_device();
  }
  Group* const of = sets_->find(operation->process_set);
  if (broken_) {  // accepted while the engine broke
    sets_->world().complete(operation, broken_status_);
  } else if (leave_deadline_) {  // had to wait for its name until now
    sets_->world().complete(operation, shut_down_status());
  } else if (of == nullptr) {
    sets_->world().complete(
        operation,
        Status::invalid_argument(std::string(name_of(operation->descriptor.kind)) + " of '" +
                                 operation->name + "': process set " +
                                 std::to_string(operation->process_set) +
                                 " does not exist any more on rank " + std::to_string(rank_) +
                                 "; it was removed while the operation was submitted"));
  } else {
    of->submit(operation);
  }
}

bool Engine::turn_groups() {
  bool moved = false;
  for (const auto& [number, group] : sets_->groups()) {
    if (const Status status = group->turn(moved); !status.is_ok()) {
      break_down(status);
      return true;
    }
  }
  sets_->change(leave_deadline_.has_value());
  return moved;
}

// --- ends ---

void Engine::leave() {
  for (const auto& [number, group] : sets_->groups()) group->leave();
  leave_deadline_ = Clock::now() + options_.shutdown_timeout;
}

void Engine::watch_timers() {
  for (const auto& [number, group] : sets_->groups()) {
    if (broken_) return;
    if (const Status status = group->watch_timers(); !status.is_ok()) break_down(status);
  }
  if (!broken_) watch_shutdown();
}

void Engine::watch_shutdown() {
  if (!leave_deadline_ || nothing_to_do() || Clock::now() < *leave_deadline_) return;
  if (waits_no_more_) {  // but has messages for a rank that takes none
    if (Clock::now() >= *leave_deadline_ + kLastWords) break_down(shut_down_status());
    return;
  }
  waits_no_more_ = true;
  std::string who;
  for (const auto& [number, group] : sets_->groups()) {
    if (group->finished()) continue;
    const std::string waited_for = group->stop_waiting();
    if (who.empty()) who = waited_for;
  }
  log::warning("shutdown: " + who + " did not shut down within " +
               to_text(options_.shutdown_timeout) +
               "; this rank ends without them (KOLO_SHUTDOWN_TIMEOUT_SECONDS)");
  const Status status = shut_down_status();
  if (sets_->any_group([](const Group& group) { return group.has_work_in_flight(); }))
    return break_down(status);
  sets_->fail_all(status);
}

// Ends everything with the status. Work in flight is kept, with the memory that it refers to, also
// after shut_down(), because messages may still be in flight.
void Engine::break_down(const Status& status) {
  if (std::exchange(broken_, true)) return;
  const Status told(status.code(),
                    status.message() + " [on rank " + std::to_string(rank_) +
                        "; all operations in flight have failed, and further ones will: "
                        "restart the job]");
  broken_status_ = told;
  log::error(told.message());
  if (status.code() == StatusCode::kPeerLost) tell_of_lost_peer();
  for (const auto& [number, group] : sets_->groups()) group->say_abort(status.message());
  // Recorded before all operations fail and the program ends.
  tracing_->hand_over_last(tracing_->record("failure: " + told.message()), kPatienceWithDisk);
  mailbox_.close(told);
  sets_->fail_all(told);
}

Driven::State Engine::state() const {
  if (leave_deadline_) return State::kLeaving;
  if (broken_) return State::kBroken;
  return outstanding() ? State::kBusy : State::kIdle;
}

// Failed operations may have let others with their names in.
bool Engine::may_end() {
  return nothing_to_do() && !drain_mailbox();
}

bool Engine::nothing_to_do() const {
  return broken_ || !sets_->any_group([](const Group& group) { return !group.finished(); });
}

bool Engine::outstanding() const {
  return sets_->any_group([](const Group& group) { return group.outstanding(); }) ||
         sets_->removes_any();
}

bool Engine::coordinates_messages() const {
  return !broken_ &&
         sets_->any_group([](const Group& group) { return group.coordinates_messages(); });
}

// Returns the time of the next stall check or report of counters on an idle rank, or nothing if
// there is none.
std::optional<Clock::time_point> Engine::next_watch() const {
  constexpr Clock::duration kNever = Clock::duration::zero();
  const Clock::duration check = options_.group.stall_check / 4;
  const Clock::duration metrics = options_.group.metrics_every;
  const bool others = sets_->any_group([](const Group& group) { return group.has_others(); });
  if (broken_ || !others || (check == kNever && metrics == kNever)) return std::nullopt;
  const Clock::duration next =
      check == kNever || metrics == kNever ? std::max(check, metrics) : std::min(check, metrics);
  return Clock::now() + std::max(next, kLeastWatch);
}

}  // namespace kolo
