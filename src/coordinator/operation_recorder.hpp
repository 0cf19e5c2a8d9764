// Records the operations of a process set: in the flight recorder, the timeline and the counters.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "collectives/device.hpp"
#include "coordinator/negotiator.hpp"
#include "coordinator/operation.hpp"
#include "coordinator/running.hpp"
#include "core/status.hpp"
#include "timeline/tracing.hpp"

namespace kolo {

// Used by the engine thread alone.
class OperationRecorder {
 public:
  // `ranks`: the set's, in the world. `tracing` outlives this.
  OperationRecorder(int process_set, std::vector<int> ranks, timeline::Tracing& tracing);

  void submitted(Operation& operation);
  // The program waits for it.
  void wanted(const Operation& operation);

  // The bucket in which a collective reduces its members. It is recorded as an operation of its own
  // beside them; stand-ins are not recorded.
  struct Bucket {
    UnitId unit = 0;
    std::size_t bytes = 0;
  };
  void launched(Running& running, timeline::Medium medium, const std::optional<Bucket>& in_bucket);
  void started(Running& running);
  // `told`: a device's times for what the host has only enqueued; otherwise it ends now.
  void ended(const Running& running, const DeviceTimes& told = {});
  // Counts a member of a collective that has ended, but kolo's own readings of the clock.
  void member_ended(const LaunchMember& member, bool well);
  // Of an operation that ends otherwise than by its collective.
  void ended(Operation& operation, const Status& status);
  // On the coordinator: a rank has submitted an operation.
  void arrived(const Negotiator::Arrival& arrival);

 private:
  const int process_set_;
  const std::vector<int> ranks_;
  timeline::Tracing& tracing_;
};

}  // namespace kolo
