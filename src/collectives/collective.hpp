// The values that describe a collective.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/types.hpp"

namespace kolo {

// result = op over all of (value * prescale), / divisor, * postscale. Average adds; the division is
// divisor's. Integers are not divided: their divisor is 1.
struct Reduction {
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::Sum;  // combine() knows all but Adasum
  std::int64_t divisor = 1;
  double postscale = 1.0;
  double prescale = 1.0;
};

// One side of an alltoall: peer i's part is [boundaries[i], boundaries[i + 1]), in bytes.
struct AlltoallSide {
  void* data = nullptr;
  std::vector<std::size_t> boundaries;
};

// How a rank's clock stands to rank 0's. All but `run` are nanoseconds of Clock, since its epoch.
struct ClockReading {
  std::int64_t at = 0;      // here, when it was read
  std::int64_t offset = 0;  // rank 0's clock at that moment, less `at`
  std::int64_t error = 0;   // the offset is this far off at most, while both clocks run alike
  std::int64_t start = 0;   // rank 0's clock when it began to measure
  std::int64_t run = 0;     // what rank 0 gave there
};

}  // namespace kolo
