// Records that the program waits for a batch.
#pragma once

#include "core/clock.hpp"

namespace kolo::data {

// Records the time from construction to destruction as waiting for data, if there is a session: in
// Metrics::data_wait and in the timeline.
class WaitForData {
 public:
  WaitForData() : begin_(Clock::now()) {}
  ~WaitForData();
  WaitForData(const WaitForData&) = delete;
  WaitForData& operator=(const WaitForData&) = delete;

 private:
  const Clock::time_point begin_;
};

}  // namespace kolo::data
