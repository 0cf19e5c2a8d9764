#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

namespace kolo::detail {

// A dense gradient, or a step, that is sent.
struct SentGradient {
  std::size_t parameter = 0;  // position in the table
  // Holds the reduced values in the end: the gradient, a copy in another dtype, or zeros.
  at::Tensor values;
  // On a device: room for the values in the dtype in which they are sent. The engine casts when it
  // packs and unpacks. Undefined: `values` has that dtype.
  at::Tensor packed;
  bool is_missing = false;  // this rank has no gradient; `values` are zeros

  // The tensor that has the dtype in which the values are sent.
  const at::Tensor& to_reduce() const { return packed.defined() ? packed : values; }
};

// Makes float32 and float64 gradients travel in a smaller dtype. The copies on the device of the
// first one lie in one buffer. Contiguous gradients on a device are cast when they are packed; the
// others are cast here, by few kernels.
void send_as(at::ScalarType type, const std::vector<SentGradient*>& gradients);

}  // namespace kolo::detail
