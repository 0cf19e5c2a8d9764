// Records the operations of a process set: in the flight recorder, the timeline and the counters.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "collectives/device.hpp"
#include "coordinator/negotiator.hpp"
#include "core/status.hpp"
#include "engine/operation.hpp"
#include "engine/running_collective.hpp"
#include "timeline/tracing.hpp"

namespace kolo {

// Used by the thread that drives.
class OperationRecorder {
 public:
  // `ranks`: world ranks of the set's members. `tracing` outlives this.
  OperationRecorder(int process_set, std::vector<int> ranks, timeline::Tracing& tracing);

  void submitted(Operation& operation);
  // The program has begun to wait for the operation.
  void wanted(const Operation& operation);

  // The bucket in which a collective reduces its members. It is recorded as an operation of its own
  // beside them; placeholders are not recorded.
  struct Bucket {
    EntryId entry = 0;
    std::size_t bytes = 0;
  };
  void launched(RunningCollective& running, Medium medium, const std::optional<Bucket>& in_bucket);
  void started(RunningCollective& running);
  // `told`: the device's times for a collective that the host only enqueued. Without them the end
  // is now.
  void ended(const RunningCollective& running, const DeviceTimes& told = {});
  // Counts a member of a collective that has ended; clock readings are not counted.
  void member_ended(const LaunchMember& member, bool succeeded);
  // Records the end of an operation that no collective ended.
  void ended(Operation& operation, const Status& status);
  // On the coordinator: a rank has submitted an operation.
  void arrived(const Negotiator::Arrival& arrival);

 private:
  const int process_set_;
  const std::vector<int> ranks_;
  timeline::Tracing& tracing_;
};

}  // namespace kolo
