// Integers, scaled and averaged exactly.
#pragma once

#include <ATen/core/Tensor.h>

namespace kolo {

// The values times the factor: computed in float64, rounded towards zero and held within the range
// of the dtype, which stays as it is.
at::Tensor scaled_integers(const at::Tensor& values, double factor);

// An average of integers. The sum of all ranks' values could leave the range of their dtype, so
// that of other numbers is computed: each value is two, which together are
// quotient * ranks + remainder, 0 <= remainder < ranks. The result is right modulo 2^64, and lies
// within int64.
struct IntegerAverage {
  double prescale = 1.0;
  double postscale = 1.0;
  int ranks = 1;

  // The two numbers of each value, in a dimension of their own behind the others: int64, of shape
  // [..., 2], contiguous.
  at::Tensor to_numbers(const at::Tensor& values) const;
  // From the sums of all ranks' numbers: the averages, rounded towards zero, scaled, and held
  // within the range of the dtype. Shape [...].
  at::Tensor from_sums(const at::Tensor& sums, at::ScalarType dtype) const;
};

// Whether the dtype is that of integers. bool is not.
bool is_integer(at::ScalarType dtype);

}  // namespace kolo
