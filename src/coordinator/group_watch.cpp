// Notices operations, ranks and devices that do not go on.
#include <algorithm>
#include <iterator>

#include "coordinator/group.hpp"
#include "core/log.hpp"
#include "core/ranks.hpp"

namespace kolo {
namespace {

// After this time without progress a collective checks whether all ranks still live.
constexpr Clock::duration kSuspicious = std::chrono::seconds(1);

constexpr Clock::duration kNever = Clock::duration::zero();

// A join waits for as long as others work, and no program waits for the timeline's operations.
bool may_stall(const Operation& operation) {
  return operation.descriptor.kind != OpKind::kJoin &&
         !traits_of(operation.descriptor.kind).is_internal;
}

}  // namespace

// "rank 1 is stopped (by a signal or a debugger)"; empty if no rank of this node is.
std::string Group::who_is_stopped() const {
  if (options_.lifelines == nullptr) return "";
  const std::vector<int> stopped = options_.lifelines->stopped_ranks(options_.launch.ranks);
  if (stopped.empty()) return "";
  return rank_list(stopped) + (stopped.size() == 1 ? " is" : " are") +
         " stopped (by a signal or a debugger)";
}

// A rank knows only the peer that it waits for, which may itself wait for another one. So if a
// process of this node is stopped, the message names that rank instead.
std::string Group::what_is_waited_for(const Work& work) const {
  if (std::string stopped = who_is_stopped(); !stopped.empty()) return stopped;
  const std::optional<int> rank = work.waits_for();
  if (!rank) return "another rank is stopped or gone, or the network is";
  return "it waits for rank " + std::to_string(*rank) +
         ", which is stopped, gone, or busy, or itself waits for another rank";
}

Status Group::watch_timers() {
  const Clock::time_point now = Clock::now();
  if (now >= next_look_at_held_) watch_held_tensors(now);
  if (now >= next_measures_) tell_measures(now);
  if (now >= next_look_at_stalls_) {
    if (Status s = watch_stalls(now); !s.is_ok()) return s;
  }
  if (now >= next_look_at_ranks_) {
    next_look_at_ranks_ = now + kSuspicious / 10;
    if (Status s = watch_lost_ranks(now); !s.is_ok()) return s;
    if (Status s = watch_device(now); !s.is_ok()) return s;
  }
  for (const RunningCollective& running : running_) {
    if (running.sequence - running_.front().sequence >= Backend::kWindow) break;  // not started
    if (!running.started || now - running.last_moved <= options_.collective_timeout) continue;
    return Status::peer_lost(
        what_runs(running.members) + " started on every rank but moved no byte on rank " +
        std::to_string(options_.launch.ranks[static_cast<std::size_t>(transport_->rank())]) +
        " for " + to_text(options_.collective_timeout) + ": " + what_is_waited_for(*running.work) +
        ". See KOLO_COLLECTIVE_TIMEOUT_SECONDS");
  }
  return Status::ok();
}

void Group::count_from(Clock::time_point now) {
  for (RunningCollective& running : running_) running.last_moved = now;
  device_moved_ = now;
  control_.count_from(now);
  seen_lost_.reset();
}

void Group::tell_measures(Clock::time_point now) {
  const bool never = options_.metrics_every == kNever || process_set_ != 0 || leaving_ || closed_;
  next_measures_ = never ? Clock::time_point::max() : now + options_.metrics_every;
  // The next ones say all that these would have said.
  if (!never && !control_.coordinates() && !control_.sending())
    control_.participant().tell_measures(timeline::to_numbers(tracing_.measures()));
}

// Checks the lifelines, because MPI may not notice that a rank has ended. Messages that the rank
// sent before its end may still arrive and complete the operation. So an end counts only if it is
// seen again after another round.
Status Group::watch_lost_ranks(Clock::time_point now) {
  // At the end of a group on several nodes a peer may have heard of it, and gone, long before.
  if (leaving_ && !on_one_node_) return Status::ok();
  const std::string what = what_stalls(now);
  const bool looks = !what.empty() && options_.lifelines != nullptr;
  const std::optional<int> lost =
      looks ? options_.lifelines->lost_rank(options_.launch.ranks) : std::nullopt;
  const std::optional<int> before = std::exchange(seen_lost_, lost);
  if (!lost || !before) return Status::ok();
  return Status::peer_lost(what + ": the process of rank " + std::to_string(*lost) + " has ended");
}

// Returns the first collective or operation without recent progress, or an empty text.
std::string Group::what_stalls(Clock::time_point now) const {
  for (const RunningCollective& running : running_) {
    if (running.started && now - running.last_moved > kSuspicious)
      return what_runs(running.members);
  }
  for (const std::shared_ptr<Operation>& pending : pending_) {
    if (pending != nullptr && now - pending->submitted > kSuspicious)
      return what_runs({{pending, false}});
  }
  if (!enqueued_.empty() && now - device_moved_ > kSuspicious)
    return what_runs(enqueued_.front().running.members);
  return leaving_ && !closed_ && now - *leaving_ > kSuspicious ? "shutdown" : "";
}

// A program may wait in ways that this engine does not see: for a message that another rank sends
// only after its own wait.
void Group::watch_held_tensors(Clock::time_point now) {
  next_look_at_held_ = now + options_.fusion_hold / 8;
  const std::size_t given_up = control_.participant().flush(now - options_.fusion_hold);
  if (given_up == 0) return;
  log::warning(
      std::to_string(given_up) + " bucket(s) were given up, because a tensor was submitted " +
      to_text(options_.fusion_hold) +
      " ago and others of its bucket are still missing (KOLO_FUSION_HOLD_SECONDS). Results "
      "stay right, but another run may fuse differently");
}

// Only the coordinator knows which ranks are missing.
Status Group::watch_stalls(Clock::time_point now) {
  if (options_.stall_check == kNever) return Status::ok();
  next_look_at_stalls_ = now + options_.stall_check / 8;
  watch_running(now);
  if (!control_.coordinates()) return watch_coordinator(now);
  control_.fail_different_kinds(now - options_.stall_check);
  const std::vector<Stall> stalls = control_.stalls(now - options_.stall_check);
  const bool ends_now = !stalls.empty() && is_too_old(now - stalls.front().since);
  if (!ends_now && !told_.is_time(stalls, now)) return Status::ok();
  const std::string stopped = who_is_stopped();
  const std::string text = describe(stalls, now) + (stopped.empty() ? "" : "; " + stopped);
  if (ends_now) return ended_by_stall(text);
  told_.told(stalls, now);
  const bool ends = options_.stall_shutdown != kNever;
  log::warning(
      "the job stalls: " + text +
      ". Possible causes: ranks submit different operations, or wait for them in different "
      "orders; a rank is stopped, or busy with something else. " +
      (ends ? "The job ends after " + to_text(options_.stall_shutdown)
            : std::string("kolo keeps waiting (no limit is set)")) +
      ". See KOLO_STALL_CHECK_TIME_SECONDS and KOLO_STALL_SHUTDOWN_TIME_SECONDS");
  control_.say_stalled(text);
  return Status::ok();
}

bool Group::is_too_old(Clock::duration age) const {
  return options_.stall_shutdown != kNever && age > options_.stall_shutdown;
}

Status Group::ended_by_stall(const std::string& text) {
  return Status::peer_lost("the job stalls, and ends for KOLO_STALL_SHUTDOWN_TIME_SECONDS: " +
                           text);
}

std::string Group::and_more(std::ptrdiff_t more) {
  return more > 0 ? ", and " + std::to_string(more) + " further operations," : "";
}

std::string Group::on_this_rank() const {
  return "rank " +
         std::to_string(options_.launch.ranks[static_cast<std::size_t>(transport_->rank())]);
}

std::string Group::what_stops_devices() const {
  const std::string stopped = who_is_stopped();
  return stopped.empty() ? "a rank or the network is gone, or a device is busy with something else"
                         : stopped;
}

std::optional<Group::Slow> Group::slow_running(Clock::time_point now,
                                               Clock::duration patience) const {
  const auto is_slow = [&](const RunningCollective& running) {
    return running.started && now - running.last_moved >= patience;
  };
  const auto slow = std::find_if(running_.begin(), running_.end(), is_slow);
  if (slow == running_.end()) return std::nullopt;
  const std::string text =
      what_runs(slow->members) + and_more(std::count_if(std::next(slow), running_.end(), is_slow)) +
      " started on every rank, and moved nothing on " + on_this_rank() + " for " +
      to_text(std::chrono::duration_cast<std::chrono::seconds>(now - slow->last_moved)) + ": " +
      what_is_waited_for(*slow->work);
  return Slow{text, slow->sequence, running_.back().sequence};
}

std::optional<Group::Slow> Group::slow_on_device(Clock::time_point now,
                                                 Clock::duration patience) const {
  if (enqueued_.empty() || now - device_moved_ < patience) return std::nullopt;
  const std::string text =
      what_runs(enqueued_.front().running.members) +
      and_more(static_cast<std::ptrdiff_t>(enqueued_.size()) - 1) +
      " was enqueued on the device of " + on_this_rank() + ", which has ended nothing for " +
      to_text(std::chrono::duration_cast<std::chrono::seconds>(now - device_moved_)) + ": " +
      what_stops_devices();
  return Slow{text, enqueued_.front().running.sequence, enqueued_.back().running.sequence};
}

void Group::watch_running(Clock::time_point now) {
  const Clock::duration patience = transport_->rank() == 0
                                       ? options_.stall_check
                                       : options_.stall_check + options_.stall_check / 2;
  tell_slow(slow_running(now, patience), slow_told_);
  tell_slow(slow_on_device(now, patience), slow_on_device_told_);
}

// Two ranks log it, because one of them may be the rank that the others wait for. All ranks write
// their flight records.
void Group::tell_slow(const std::optional<Slow>& slow, std::uint64_t& told) {
  if (!slow || slow->sequence < told) return;
  told = slow->last_sequence + 1;
  if (transport_->rank() < 2) {
    log::warning("the job stalls: " + slow->text + ". It ends after " +
                 to_text(options_.collective_timeout) + " (KOLO_COLLECTIVE_TIMEOUT_SECONDS)");
  }
  tracing_.meters().stalled();
  tracing_.ask_for_dump("stall: " + slow->text);
}

// If the coordinator itself hangs, it cannot report which ranks are missing. It reports a stall
// when the limit has passed, and again whenever that time has doubled. It may learn of an operation
// only after that has waited for others of its bucket.
Status Group::watch_coordinator(Clock::time_point now) {
  const std::shared_ptr<Operation>* oldest = nullptr;
  for (const std::shared_ptr<Operation>& pending : pending_) {
    if (pending == nullptr || !may_stall(*pending)) continue;
    if (oldest == nullptr || pending->submitted < (*oldest)->submitted) oldest = &pending;
  }
  if (oldest == nullptr) return Status::ok();
  const Clock::time_point known =
      (*oldest)->submitted + std::min(options_.fusion_hold, options_.stall_check);
  const Clock::duration silence = now - std::max(told_of_stalls_, known);
  if (silence < (now - known + options_.stall_check) * 6 / 10) return Status::ok();
  const Clock::duration age = now - (*oldest)->submitted;
  told_of_stalls_ = now;
  const std::string stopped = who_is_stopped();
  const std::string text = what_runs({{*oldest, false}}) + " was submitted " +
                           to_text(std::chrono::duration_cast<std::chrono::seconds>(age)) +
                           " ago, and rank " + std::to_string(options_.launch.ranks[0]) +
                           ", which coordinates, says nothing of it: " +
                           (stopped.empty() ? "it is stopped, or its computer" : stopped);
  if (is_too_old(age)) return ended_by_stall(text);
  if (transport_->rank() == 1) log::warning("the job stalls: " + text);
  tracing_.meters().stalled();
  tracing_.ask_for_dump("stall: " + text);
  return Status::ok();
}

}  // namespace kolo
