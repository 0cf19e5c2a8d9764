// Converts LibTorch's tensors to what the engine works on.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/operation.hpp"

namespace kolo {

struct Call;

// Identifies a tensor of a call in messages.
struct Argument {
  const Call& call;
  std::size_t index = 0;  // in the group
  std::size_t of = 1;     // tensors in the group
};

// Returns the dtype in which a tensor's values are sent, or nothing if kolo cannot send them. A
// complex number is sent as two real ones.
std::optional<DType> dtype_sent(at::ScalarType type);

// Returns the name of a dtype that can be sent: "int32", "complex64".
std::string name_of(at::ScalarType type);

// Makes the operation that works on `tensors` in place, and fills in descriptor.tensors. An
// allreduce works on any dense tensor where it lies. Other operations, and averages of integers,
// may work on a copy, which is copied back at the end. Throws InvalidArgumentError, which names the
// call, for tensors that kolo does not support.
std::shared_ptr<Operation> make_operation(const Call& call, at::TensorList tensors,
                                          Descriptor descriptor);

// Returns the dimensions of a dense tensor in memory order. Omits those with one element, because
// their strides mean nothing.
std::vector<std::int64_t> order_in_memory(const at::Tensor& tensor);

// Whether an allreduce of the tensor works on the tensor's own memory, unless it averages integers.
bool is_reduced_in_place(const at::Tensor& tensor);

// For an operation on a device whose tensor `index` is float16 or bfloat16: reads the values from
// `values`, which is contiguous and float32 or float64, and stores the result there.
void set_outside(Operation& operation, std::size_t index, const at::Tensor& values);

// The result of a gather: for each tensor, the rows of all ranks, and their number by rank.
struct Gathered {
  std::vector<at::Tensor> tensors;
  std::vector<std::vector<std::int64_t>> rows;
};

// Makes the operation that gathers rows of `tensors`, without changing them. Fills `gathered`.
std::shared_ptr<Operation> make_gather(const Call& call, const std::vector<at::Tensor>& tensors,
                                       const std::shared_ptr<Gathered>& gathered);

// Throws for tensors that kolo does not support.
void check(const Argument& argument, const at::Tensor& tensor);

// Returns a contiguous copy without autograd history, for operations that are not in place.
at::Tensor working_copy(const Argument& argument, const at::Tensor& tensor);

}  // namespace kolo
