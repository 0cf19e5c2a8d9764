// Scales and averages integers exactly.
#pragma once

#include <ATen/core/Tensor.h>

namespace kolo {

// Returns the values times the factor, in the same dtype. Computes in float64, rounds towards zero,
// and clamps to the range of the dtype.
at::Tensor scaled_integers(const at::Tensor& values, double factor);

// Averages integers over ranks. A sum of the values could leave the range of their dtype. Instead,
// each value is split into quotient * ranks + remainder, with 0 <= remainder < ranks, and the ranks
// add quotients and remainders. These sums may wrap around in int64; the average computed from them
// is still right, because it lies within int64.
struct IntegerAverage {
  double prescale = 1.0;
  double postscale = 1.0;
  int ranks = 1;

  // Returns quotient and remainder of each prescaled value: int64, shape [..., 2], contiguous.
  at::Tensor to_numbers(const at::Tensor& values) const;
  // Returns the averages from the sums of all ranks' numbers: rounded towards zero, scaled, and
  // clamped to the range of the dtype. Shape [...].
  at::Tensor from_sums(const at::Tensor& sums, at::ScalarType dtype) const;
};

// Whether the dtype is an integer type other than bool.
bool is_integer(at::ScalarType dtype);

}  // namespace kolo
