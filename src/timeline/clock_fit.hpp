// From now and then a reading of a rank's clock to what it showed at any time.
#pragma once

#include <vector>

#include "timeline/event.hpp"

namespace kolo::timeline {

class ClockFit {
 public:
  // In any order. A reading is left out if another one shows the same more exactly.
  explicit ClockFit(std::vector<ClockEvent> readings);

  // Rank 0's clock less this one, when this one showed `at`: on straight lines between readings,
  // and beyond them on that through the first and the last. Without any reading 0.
  double offset(Nanoseconds at) const;
  // The largest error of the readings. Between them clocks are taken to drift evenly.
  Nanoseconds error() const;
  // How much slower this clock is than rank 0's, in parts per million.
  double drift() const { return slope_ * 1e6; }

 private:
  std::vector<ClockEvent> readings_;  // by time
  double slope_ = 0;                  // through the first and the last
};

}  // namespace kolo::timeline
