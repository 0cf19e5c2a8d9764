// Integers, scaled and averaged exactly.
#pragma once

#include <ATen/core/Tensor.h>

namespace kolo {

// Returns the values times the factor, in the same dtype: computed in float64, rounded towards zero
// and held within the range of the dtype.
at::Tensor scaled_integers(const at::Tensor& values, double factor);

// The average of integers over ranks. A sum of the values could leave the range of their dtype.
// Instead, each value is split into quotient * ranks + remainder, with 0 <= remainder < ranks, and
// the ranks add quotients and remainders. These sums may wrap around in int64; the average that is
// computed from them is still right, because it lies within int64.
struct IntegerAverage {
  double prescale = 1.0;
  double postscale = 1.0;
  int ranks = 1;

  // Returns quotient and remainder of each value, scaled before: int64, shape [..., 2], contiguous.
  at::Tensor to_numbers(const at::Tensor& values) const;
  // Returns the averages, from the sums of all ranks' numbers: rounded towards zero, scaled, and
  // held within the range of the dtype. Shape [...].
  at::Tensor from_sums(const at::Tensor& sums, at::ScalarType dtype) const;
};

// Whether the dtype is an integer dtype other than bool.
bool is_integer(at::ScalarType dtype);

}  // namespace kolo
