#include "kolo/metrics.h"

#include <numeric>

#include "torch_ops/session/session.hpp"

namespace kolo {
namespace {

TimeHistogram histogram_of(const TimeCounts& times) {
  TimeHistogram histogram;
  for (std::size_t i = 0; i < TimeCounts::kBounds; ++i)
    histogram.bounds.push_back(TimeCounts::bound(i));
  histogram.counts.assign(times.counts.begin(), times.counts.end());
  histogram.sum = static_cast<double>(times.sum) / 1e9;
  return histogram;
}

}  // namespace

std::uint64_t TimeHistogram::count() const {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

Metrics metrics() {
  const Measures now = session("metrics")->engine().tracing().measures();
  Metrics metrics;
  for (std::size_t kind = 0; kind < now.operations.size(); ++kind) {
    if (now.operations[kind] == 0) continue;
    metrics.operations[name_of(static_cast<OpKind>(kind))] = {now.operations[kind],
                                                              now.bytes[kind]};
  }
  metrics.failed = now.failed;
  metrics.collectives = now.collectives;
  metrics.buckets = now.buckets;
  metrics.known_names = now.known;
  metrics.announced_names = now.announced;
  metrics.stalls = now.stalls;
  metrics.step = now.step;
  metrics.negotiation = histogram_of(now.negotiation);
  metrics.collective = histogram_of(now.collective);
  metrics.wait = histogram_of(now.wait);
  metrics.data_wait = histogram_of(now.data_wait);
  return metrics;
}

}  // namespace kolo
