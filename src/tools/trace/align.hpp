// Converts times in a rank's timeline to rank 0's clock.
#pragma once

#include "timeline/clock_fit.hpp"
#include "tools/trace/file.hpp"

namespace kolo::tools {

class Aligner {
 public:
  explicit Aligner(const RankTrace& trace);

  // Returns microseconds since rank 0's start, for a time in the file; not below 0.
  double aligned(double microseconds) const;
  const timeline::ClockFit& fit() const { return fit_; }

 private:
  const timeline::ClockFit fit_;
  const Nanoseconds shift_;
  double first_ = 0;
};

}  // namespace kolo::tools
