// Counters of a rank since init(). Rank 0 can serve those of all ranks for Prometheus
// (KOLO_METRICS_PORT, kolo run --metrics-port). See docs/metrics.md.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace kolo {

// A histogram of durations.
struct TimeHistogram {
  std::vector<double> bounds;  // seconds, rising
  std::vector<std::uint64_t>
      counts;      // up to each bound, from the one before; at last what is above
  double sum = 0;  // seconds

  std::uint64_t count() const;  // of all
};

// Counters of one kind of operation.
struct OperationMetrics {
  std::uint64_t operations = 0;  // that succeeded, counted tensor by tensor
  std::uint64_t bytes = 0;       // of this rank's tensors in them
};

// Counters of this rank since init().
struct Metrics {
  std::map<std::string, OperationMetrics>
      operations;                     // by name ("allreduce"), those that were used
  std::uint64_t failed = 0;           // operations
  std::uint64_t collectives = 0;      // that ran; a bucket is one
  std::uint64_t buckets = 0;          // that ran
  std::uint64_t known_names = 0;      // submissions under a name that had a number (cache hits)
  std::uint64_t announced_names = 0;  // and under one that had none (cache misses)
  std::uint64_t stalls = 0;           // that were reported, see docs/timeline.md
  std::uint64_t step = 0;             // of training, see mark_step()
  // Durations of buckets, and of tensors that are reduced alone.
  TimeHistogram negotiation;  // from its (last tensor's) submission until all ranks have agreed
  TimeHistogram collective;   // from its start to its end
  TimeHistogram wait;         // waits of the program's threads for an operation
  // Time that the program's threads waited for a batch of a DataLoader.
  TimeHistogram data_wait;
};

// Not collective; any thread. The numbers are read one by one while others may count on. Throws
// NotInitializedError.
Metrics metrics();

}  // namespace kolo
