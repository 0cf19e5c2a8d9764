#include "benchmarks/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>

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

Ratio ratio_of_pairs(const std::vector<double>& samples, const std::vector<double>& of) {
  if (samples.empty()) return {};
  std::vector<double> ratios(samples.size());
  std::transform(samples.begin(), samples.end(), of.begin(), ratios.begin(), std::divides<>());
  std::sort(ratios.begin(), ratios.end());
  // How many ratios are below the true median is binomial with 1/2: the mean is n / 2, and 95 % are
  // within 1.96 standard deviations of sqrt(n) / 2.
  const auto count = static_cast<double>(ratios.size());
  const double rank = std::floor((count - 1.96 * std::sqrt(count)) / 2);
  const auto first = static_cast<std::size_t>(std::max(rank, 1.0)) - 1;
  const double median = (ratios[(ratios.size() - 1) / 2] + ratios[ratios.size() / 2]) / 2;
  return {median, ratios[first], ratios[ratios.size() - 1 - first],
          static_cast<int>(ratios.size())};
}

}  // namespace kolo::bench
