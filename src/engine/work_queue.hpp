// The collectives of a group that were agreed upon: starts, steps and ends their works.
#pragma once

#include <cstdint>
#include <list>

#include "collectives/work.hpp"
#include "core/clock.hpp"
#include "core/status.hpp"
#include "engine/completion.hpp"
#include "engine/device_queue.hpp"
#include "engine/operation_recorder.hpp"
#include "engine/running_collective.hpp"
#include "timeline/tracing.hpp"

namespace kolo {

// Starts the works of one kind (large, small, on a device) in the order of their sequence numbers,
// which is the same on every rank. So the oldest unfinished one runs on every rank, and the limits
// on works in flight cannot lock. Used by the thread that drives.
class WorkQueue {
 public:
  // All outlive this.
  WorkQueue(Completion& completion, OperationRecorder& recorder, DeviceQueue& device,
            timeline::Tracing& tracing)
      : completion_(completion), recorder_(recorder), device_(device), tracing_(tracing) {}

  // Adds a collective without members and without work, and returns it to be filled in. It counts
  // as running from here on, so that its operations are failed if filling it in fails.
  RunningCollective& add(std::uint64_t sequence);
  // Call when the last one is filled in. Ends it at once if it has no work.
  void accept_last();
  // Removes the last one; its caller ends it.
  void withdraw_last() { running_.pop_back(); }

  // Starts and steps what can go on without waiting. An error means that the job has failed.
  Status step(bool& moved);
  // Ends all operations with the status. Their works are kept, because messages may still arrive.
  void fail_all(const Status& status);
  // Restarts all timeouts.
  void count_from(Clock::time_point now);

  bool is_empty() const { return running_.empty(); }
  const std::list<RunningCollective>& running() const { return running_; }

 private:
  Status step(RunningCollective& running, bool& moved);
  Progress start_or_step(RunningCollective& running, Status& status);
  void end(const RunningCollective& running);

  Completion& completion_;
  OperationRecorder& recorder_;
  DeviceQueue& device_;
  timeline::Tracing& tracing_;
  std::list<RunningCollective> running_;  // by sequence
};

}  // namespace kolo
