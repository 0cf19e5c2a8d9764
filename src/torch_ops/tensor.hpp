// From LibTorch's tensors to what the engine works on.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "coordinator/operation.hpp"

namespace kolo {

// Makes the operation that works on `tensor` in place; descriptor.dtype and shape are filled in.
// Where the tensor is not contiguous the engine works on a copy, which is copied back at the end.
// Throws InvalidArgumentError, naming `what` ("allreduce of 'x'"), for tensors that kolo cannot
// take.
std::shared_ptr<Operation> make_operation(const std::string& what, const std::string& name,
                                          const at::Tensor& tensor, Descriptor descriptor);

// A copy to work on for operations that are not in place: contiguous, without autograd's history.
at::Tensor working_copy(const std::string& what, const at::Tensor& tensor);

}  // namespace kolo
