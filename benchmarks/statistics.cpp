#include "benchmarks/statistics.hpp"

#include <algorithm>
#include <cstddef>

namespace kolo::bench {

Summary summarize(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  const std::size_t count = samples.size();
  Summary summary;
  summary.median = (samples[(count - 1) / 2] + samples[count / 2]) / 2;
  summary.min = samples.front();
  summary.p90 = samples[(count * 9 + 9) / 10 - 1];
  summary.samples = static_cast<int>(count);
  return summary;
}

}  // namespace kolo::bench
