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
  std::vector<double> bounds;         // upper bounds of the bins, in seconds, ascending
  std::vector<std::uint64_t> counts;  // one per bin, and a last one for durations above all bounds
  double sum = 0;                     // of all durations, in seconds

  std::uint64_t count() const;  // number of durations
};

// Counters of one kind of operation.
struct OperationMetrics {
  std::uint64_t operations = 0;  // tensors whose operation succeeded
  std::uint64_t bytes = 0;       // bytes of this rank's tensors in them
};

// Counters of this rank since init().
struct Metrics {
  std::map<std::string, OperationMetrics>
      operations;                     // by name ("allreduce"); only kinds that were used
  std::uint64_t failed = 0;           // operations that failed
  std::uint64_t collectives = 0;      // collectives that ran; a bucket counts as one
  std::uint64_t buckets = 0;          // buckets that ran
  std::uint64_t known_names = 0;      // submissions by number (cache hits)
  std::uint64_t announced_names = 0;  // submissions by name (cache misses)
  std::uint64_t stalls = 0;           // stalls that were reported, see docs/timeline.md
  std::uint64_t step = 0;             // current training step, see mark_step()
  // Durations of buckets, and of tensors that are reduced alone.
  TimeHistogram negotiation;  // from the (last tensor's) submission until all ranks have agreed
  TimeHistogram collective;   // from the start of the collective to its end
  TimeHistogram wait;         // of each wait of a program's thread for an operation
  // Time that the program's threads waited for a batch of a DataLoader.
  TimeHistogram data_wait;
};

// Returns a copy of the counters. Not collective; any thread. Counters are read one after another,
// so they may differ by operations that end meanwhile. Throws NotInitializedError.
Metrics metrics();

}  // namespace kolo
