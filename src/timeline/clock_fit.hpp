// Derives the offset of a rank's clock at any time from occasional readings.
#pragma once

#include <vector>

#include "timeline/event.hpp"

namespace kolo::timeline {

class ClockFit {
 public:
  // The readings may have any order. A reading is left out if another one, in spite of drift, is
  // more exact at its time.
  explicit ClockFit(std::vector<ClockEvent> readings);

  // Returns rank 0's clock less this one, when this one showed `at`: on straight lines between
  // readings, and beyond them on the line through the first and the last. 0 without any reading.
  double offset(Nanoseconds at) const;
  // Returns the largest error of the readings. Assumes that clocks drift evenly between them.
  Nanoseconds error() const;
  // Returns how much slower this clock is than rank 0's, in parts per million.
  double drift() const { return slope_ * 1e6; }

 private:
  std::vector<ClockEvent> readings_;  // by time
  double slope_ = 0;                  // of the line through the first and the last
};

}  // namespace kolo::timeline
