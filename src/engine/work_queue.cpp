#include "engine/work_queue.hpp"

#include <exception>
#include <utility>

#include "collectives/backend.hpp"

namespace kolo {
namespace {

// Large collectives share the links: enough of them for one to pack or reduce while others travel.
// Small ones pass them; only memory bounds their number.
constexpr int kLargeAtOnce = 4;
constexpr int kSmallAtOnce = 64;
// Ranks enqueue in the same order.
constexpr int kOnDeviceAtOnce = 1;

}  // namespace

RunningCollective& WorkQueue::add(std::uint64_t sequence) {
  RunningCollective& running = running_.emplace_back();
  running.sequence = sequence;
  running.last_moved = Clock::now();
  return running;
}

void WorkQueue::accept_last() {
  if (running_.back().work == nullptr) {
    end(running_.back());
    running_.pop_back();
    return;
  }
  ++tracing_.load.queued;
  tracing_.add_load();
}

Status WorkQueue::step(bool& moved) {
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

Progress WorkQueue::start_or_step(RunningCollective& running, Status& status) {
  try {
    if (!std::exchange(running.started, true)) {
      running.last_moved = Clock::now();
      recorder_.started(running);
      status = running.on_device ? device_.start(running, tracing_.on()) : running.work->start();
    }
    return status.is_ok() ? running.work->step(status) : Progress::kFailed;
  } catch (const std::exception& error) {  // memory for a result, say
    status = Status::internal(error.what());
    return Progress::kFailed;
  }
}

// Steps one work and ends it if it is done (then its work is null).
Status WorkQueue::step(RunningCollective& running, bool& moved) {
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
      if (running.on_device) return device_.enqueue(running);
      running.work.reset();
      end(running);
      return Status::ok();
    case Progress::kFailed:
      break;
  }
  if (running.on_device) status = device_.name_lost_rank(status);
  return Status(status.code(), what_runs(running.members) + ": " + status.message());
}

void WorkQueue::end(const RunningCollective& running) {
  recorder_.ended(running);
  completion_.end(running.members);
}

void WorkQueue::fail_all(const Status& status) {
  for (const RunningCollective& running : running_) {
    for (const LaunchMember& member : running.members) completion_.end(member.operation, status);
  }
}

void WorkQueue::count_from(Clock::time_point now) {
  for (RunningCollective& running : running_) running.last_moved = now;
}

}  // namespace kolo
