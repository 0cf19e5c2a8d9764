#include "engine/watchdog.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "collectives/backend.hpp"
#include "core/ranks.hpp"

namespace kolo {
namespace {

// After this time without progress a collective checks whether all ranks still live.
constexpr Clock::duration kSuspicious = std::chrono::seconds(1);

constexpr Clock::duration kNever = Clock::duration::zero();

// A join waits for as long as others work, and no program waits for kolo's own operations.
bool may_stall(const Operation& operation) {
  return operation.descriptor.kind != OpKind::kJoin &&
         !traits_of(operation.descriptor.kind).is_internal;
}

std::string in_seconds(Clock::duration time) {
  return to_text(std::chrono::duration_cast<std::chrono::seconds>(time));
}

std::string and_more(std::ptrdiff_t more) {
  return more > 0 ? ", and " + std::to_string(more) + " further operations," : "";
}

Status ended_by_stall(const std::string& text) {
  return Status::peer_lost(
      "the job stalls, and ends because of KOLO_STALL_SHUTDOWN_TIME_SECONDS: " + text);
}

}  // namespace

bool Watchdog::is_time_for_stalls(Clock::time_point now) {
  if (options_.stall_check == kNever || now < next_look_for_stalls_) return false;
  next_look_for_stalls_ = now + options_.stall_check / 8;
  return true;
}

bool Watchdog::is_time_for_ranks(Clock::time_point now) {
  if (now < next_look_at_ranks_) return false;
  next_look_at_ranks_ = now + kSuspicious / 10;
  return true;
}

// "rank 1 is stopped (by a signal or a debugger)"; empty if no rank of this node is.
std::string Watchdog::stopped() const {
  if (!options_.stopped_ranks) return "";
  const std::vector<int> stopped = options_.stopped_ranks(options_.ranks);
  if (stopped.empty()) return "";
  return rank_list(stopped) + (stopped.size() == 1 ? " is" : " are") +
         " stopped (by a signal or a debugger)";
}

std::string Watchdog::this_rank() const {
  return "rank " + std::to_string(options_.ranks[static_cast<std::size_t>(options_.rank)]);
}

// A rank knows only the peer that it waits for, which may itself wait for another one. So if a
// process of this node is stopped, the message names that rank instead.
std::string Watchdog::cause(const Work& work) const {
  if (std::string text = stopped(); !text.empty()) return text;
  const std::optional<int> rank = work.waits_for();
  if (!rank) return "another rank is stopped or gone, or the network is down";
  return "it waits for rank " + std::to_string(*rank) +
         ", which is stopped, gone, or busy, or itself waits for another rank";
}

std::string Watchdog::cause_on_device() const {
  const std::string text = stopped();
  return text.empty()
             ? "a rank is gone, the network is down, or a device is busy with something else"
             : text;
}

Status Watchdog::check_timeouts(const GroupSnapshot& group) const {
  const Clock::duration timeout = options_.collective_timeout;
  if (group.on_device && group.now - group.on_device->moved > timeout) {
    return Status::peer_lost(what_runs(group.on_device->first->members) +
                             " was enqueued on the device of " + this_rank() + " " +
                             to_text(timeout) + " ago and has not ended: " + cause_on_device() +
                             ". See KOLO_COLLECTIVE_TIMEOUT_SECONDS");
  }
  for (const RunningCollective& running : group.running) {
    if (running.sequence - group.running.front().sequence >= Backend::kWindow)
      break;  // not started
    if (!running.started || group.now - running.last_moved <= timeout) continue;
    return Status::peer_lost(what_runs(running.members) +
                             " started on every rank but moved no byte on " + this_rank() +
                             " for " + to_text(timeout) + ": " + cause(*running.work) +
                             ". See KOLO_COLLECTIVE_TIMEOUT_SECONDS");
  }
  return Status::ok();
}

// Messages that a rank sent before its end may still arrive and complete the operation. So an end
// counts only if it is seen again after another round.
Status Watchdog::check_ranks(const GroupSnapshot& group) {
  // At the end of a group on several nodes a peer may have heard of it, and gone, long before.
  if (group.leaving && !options_.on_one_node) return Status::ok();
  const std::string what = first_without_progress(group);
  const bool looks = !what.empty() && options_.lost_rank;
  const std::optional<int> lost = looks ? options_.lost_rank(options_.ranks) : std::nullopt;
  const std::optional<int> before = std::exchange(seen_lost_, lost);
  if (!lost || !before) return Status::ok();
  return Status::peer_lost(what + ": the process of rank " + std::to_string(*lost) + " has ended");
}

// The first collective or operation without recent progress, or an empty text.
std::string Watchdog::first_without_progress(const GroupSnapshot& group) const {
  for (const RunningCollective& running : group.running) {
    if (running.started && group.now - running.last_moved > kSuspicious)
      return what_runs(running.members);
  }
  for (const std::shared_ptr<Operation>& pending : group.pending) {
    if (pending != nullptr && group.now - pending->submitted > kSuspicious)
      return what_runs({{pending, false}});
  }
  if (group.on_device && group.now - group.on_device->moved > kSuspicious)
    return what_runs(group.on_device->first->members);
  const bool lasts = group.leaving && !group.is_closed && group.now - *group.leaving > kSuspicious;
  return lasts ? "shutdown" : "";
}

Findings Watchdog::look_for_stalls(const GroupSnapshot& group) {
  Findings findings;
  const Clock::duration patience =
      options_.rank == 0 ? options_.stall_check : options_.stall_check + options_.stall_check / 2;
  report(slow_running(group, patience), slow_reported_, findings);
  report(slow_on_device(group, patience), slow_on_device_reported_, findings);
  if (group.stalls != nullptr) {
    look_as_coordinator(group, findings);
  } else {
    look_at_coordinator(group, findings);
  }
  return findings;
}

std::optional<Watchdog::Slow> Watchdog::slow_running(const GroupSnapshot& group,
                                                     Clock::duration patience) const {
  const auto is_slow = [&](const RunningCollective& running) {
    return running.started && group.now - running.last_moved >= patience;
  };
  const auto end = group.running.end();
  const auto slow = std::find_if(group.running.begin(), end, is_slow);
  if (slow == end) return std::nullopt;
  const std::string text = what_runs(slow->members) +
                           and_more(std::count_if(std::next(slow), end, is_slow)) +
                           " started on every rank, and moved nothing on " + this_rank() + " for " +
                           in_seconds(group.now - slow->last_moved) + ": " + cause(*slow->work);
  return Slow{text, slow->sequence, group.running.back().sequence};
}

std::optional<Watchdog::Slow> Watchdog::slow_on_device(const GroupSnapshot& group,
                                                       Clock::duration patience) const {
  if (!group.on_device || group.now - group.on_device->moved < patience) return std::nullopt;
  const GroupSnapshot::OnDevice& device = *group.on_device;
  const std::string text =
      what_runs(device.first->members) + and_more(static_cast<std::ptrdiff_t>(device.count) - 1) +
      " was enqueued on the device of " + this_rank() + ", which has finished nothing for " +
      in_seconds(group.now - device.moved) + ": " + cause_on_device();
  return Slow{text, device.first->sequence, device.last->sequence};
}

// Two ranks log it, because one of them may be the rank that the others wait for. All ranks write
// their flight records.
void Watchdog::report(const std::optional<Slow>& slow, std::uint64_t& reported,
                      Findings& findings) const {
  if (!slow || slow->sequence < reported) return;
  reported = slow->last_sequence + 1;
  if (options_.rank < 2) {
    findings.warnings.push_back("the job stalls: " + slow->text + ". It ends after " +
                                to_text(options_.collective_timeout) +
                                " (KOLO_COLLECTIVE_TIMEOUT_SECONDS)");
  }
  findings.stalls.push_back(slow->text);
}

bool Watchdog::ends_job(Clock::duration age) const {
  return options_.stall_shutdown != kNever && age > options_.stall_shutdown;
}

// Only the coordinator knows which ranks are missing.
void Watchdog::look_as_coordinator(const GroupSnapshot& group, Findings& findings) {
  const std::vector<Stall>& stalls = *group.stalls;
  const bool ends_now = !stalls.empty() && ends_job(group.now - stalls.front().since);
  if (!ends_now && !told_.is_time(stalls, group.now)) return;
  const std::string who = stopped();
  const std::string text = describe(stalls, group.now) + (who.empty() ? "" : "; " + who);
  if (ends_now) {
    findings.status = ended_by_stall(text);
    return;
  }
  told_.told(stalls, group.now);
  findings.warnings.push_back(
      "the job stalls: " + text +
      ". Possible causes: ranks submit different operations, or wait for them in different "
      "orders; a rank is stopped, or busy with something else. " +
      (options_.stall_shutdown != kNever ? "The job ends after " + to_text(options_.stall_shutdown)
                                         : "kolo keeps waiting (no limit is set)") +
      ". See KOLO_STALL_CHECK_TIME_SECONDS and KOLO_STALL_SHUTDOWN_TIME_SECONDS");
  findings.announcement = text;
}

// If the coordinator itself hangs, it cannot report which ranks are missing. It reports a stall
// when the limit has passed, and again whenever that time has doubled. It may learn of an operation
// only after that has waited for others of its bucket.
void Watchdog::look_at_coordinator(const GroupSnapshot& group, Findings& findings) {
  const std::shared_ptr<Operation>* oldest = nullptr;
  for (const std::shared_ptr<Operation>& pending : group.pending) {
    if (pending == nullptr || !may_stall(*pending)) continue;
    if (oldest == nullptr || pending->submitted < (*oldest)->submitted) oldest = &pending;
  }
  if (oldest == nullptr) return;
  const Clock::time_point known =
      (*oldest)->submitted + std::min(options_.fusion_hold, options_.stall_check);
  const Clock::duration silence = group.now - std::max(heard_of_stall_, known);
  if (silence < (group.now - known + options_.stall_check) * 6 / 10) return;
  heard_of_stall_ = group.now;
  const Clock::duration age = group.now - (*oldest)->submitted;
  const std::string who = stopped();
  const std::string text = what_runs({{*oldest, false}}) + " was submitted " + in_seconds(age) +
                           " ago, and rank " + std::to_string(options_.ranks[0]) +
                           ", the coordinator, has not reported on it: " +
                           (who.empty() ? "it is stopped, or its computer is" : who);
  if (ends_job(age)) {
    findings.status = ended_by_stall(text);
    return;
  }
  if (options_.rank == 1) findings.warnings.push_back("the job stalls: " + text);
  findings.stalls.push_back(text);
}

}  // namespace kolo
