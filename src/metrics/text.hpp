// Writes the ranks' counters in Prometheus's text format (version 0.0.4,
// https://prometheus.io/docs/instrumenting/exposition_formats/).
#pragma once

#include <map>
#include <string>

#include "core/clock.hpp"
#include "core/thread_annotations.hpp"
#include "metrics/meters.hpp"

namespace kolo {

struct RankMeasures {
  Measures measures;
  Clock::time_point at;  // when they were reported
};

// Returns the text, in which each line has the rank as a label.
std::string metrics_text(const std::map<int, RankMeasures>& ranks, Clock::time_point now);

// Keeps the newest counters of each rank. Any thread may call.
class MetricsBoard {
 public:
  void keep(int rank, const Measures& measures) KOLO_EXCLUDES(mutex_);
  std::string text() const KOLO_EXCLUDES(mutex_);

 private:
  mutable Mutex mutex_;
  std::map<int, RankMeasures> ranks_ KOLO_GUARDED_BY(mutex_);
};

}  // namespace kolo
