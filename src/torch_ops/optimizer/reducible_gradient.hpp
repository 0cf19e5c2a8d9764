#pragma once

#include <ATen/core/Tensor.h>

#include "torch_ops/optimizer/parameter_table.hpp"

namespace kolo::detail {

// Returns the parameter's gradient in the form in which it is reduced in place: in the parameter's
// layout and strides, and in memory of its own. Replaces the parameter's gradient where it has
// another form. Undefined if the parameter has no gradient.
//
// Autograd may give two parameters views of one storage as gradients (those of a sum, for example).
// Reduced in place, that storage would be reduced twice, so it is copied. `references`: the number
// of tensors that refer to the gradient's storage if the gradient shares it with no other one.
at::Tensor reducible_gradient(const Parameter& parameter, bool sparse_as_dense,
                              std::size_t references);

}  // namespace kolo::detail
