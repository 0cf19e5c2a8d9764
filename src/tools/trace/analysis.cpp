#include "tools/trace/analysis.hpp"

#include <algorithm>

namespace kolo::tools {

Shares& Shares::operator+=(const Shares& other) {
  compute += other.compute;
  overlapped += other.overlapped;
  exposed += other.exposed;
  waiting += other.waiting;
  return *this;
}

Shares Shares::over(double count) const {
  return {compute / count, overlapped / count, exposed / count, waiting / count};
}

bool counts(const Analysis& analysis, std::int64_t step) {
  const std::size_t place = place_of(analysis, step);
  return place < analysis.steps.size() && analysis.counts[place];
}

std::size_t place_of(const Analysis& analysis, std::int64_t step) {
  const auto found = std::lower_bound(analysis.steps.begin(), analysis.steps.end(), step);
  const bool there = found != analysis.steps.end() && *found == step;
  return there ? static_cast<std::size_t>(found - analysis.steps.begin()) : analysis.steps.size();
}

}  // namespace kolo::tools
