#include "tools/trace/align.hpp"

#include <algorithm>
#include <cmath>

namespace kolo::tools {

Aligner::Aligner(const RankTrace& trace) : fit_(trace.clock), shift_(trace.header.shift) {
  // The file's times already contain the offset of the first reading.
  if (!trace.clock.empty()) first_ = static_cast<double>(trace.clock.front().offset);
}

double Aligner::aligned(double microseconds) const {
  // No timeline is that long, and no clock counts further.
  constexpr double kMost = 4e15;
  const double there = std::clamp(microseconds, 0.0, kMost);
  const auto here = static_cast<Nanoseconds>(std::llround(there * 1000)) - shift_;
  return std::max(0.0, there + (fit_.offset(here) - first_) / 1000);
}

}  // namespace kolo::tools
