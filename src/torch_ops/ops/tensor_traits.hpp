// Properties of LibTorch's tensors that matter to kolo.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/types.hpp"

namespace kolo {

// Returns the dtype in which a tensor's values are sent, or nothing if kolo cannot send them. A
// complex number is sent as two real ones.
std::optional<DType> dtype_sent(at::ScalarType type);

// Returns the name of a dtype that can be sent: "int32", "complex64".
std::string name_of(at::ScalarType type);

// Returns the dimensions of a dense tensor in memory order. Omits those with one element, because
// their strides mean nothing.
std::vector<std::int64_t> order_in_memory(const at::Tensor& tensor);

// Whether an allreduce of the tensor works on the tensor's own memory, unless it averages integers.
bool is_reduced_in_place(const at::Tensor& tensor);

}  // namespace kolo
