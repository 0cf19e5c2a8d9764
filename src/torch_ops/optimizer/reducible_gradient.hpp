#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>

#include "torch_ops/optimizer/parameter_table.hpp"

namespace kolo::detail {

// Says who refers to a gradient, and who has made it.
struct GradientOrigin {
  // The number of tensors that refer to its storage if it shares that with no other tensor.
  std::size_t expected_references = 1;
  // Whether a copy may take its place. Otherwise the reduced values are copied back to it.
  bool may_replace = false;
};

// Returns the parameter's gradient in the form in which it is reduced in place: in the parameter's
// layout and strides, and in memory of its own. Undefined if the parameter has no gradient.
//
// The result is the gradient itself, which is made sparse or dense first if it has to be, or a copy
// of it: if the program has set a gradient with other strides, or if the gradient shares memory.
// Autograd may give two parameters views of one storage as gradients (those of a sum, for example),
// which would be reduced twice; a program may keep its gradients in one tensor of its own.
at::Tensor reducible_gradient(const Parameter& parameter, bool sparse_as_dense,
                              const GradientOrigin& origin);

}  // namespace kolo::detail
