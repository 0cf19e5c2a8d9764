// Records that the program waits for a batch.
#pragma once

#include "core/clock.hpp"

namespace kolo::data {

// From construction to destruction the program waits. Counted in Metrics::data_wait and shown in
// the timeline, if there is a session.
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
