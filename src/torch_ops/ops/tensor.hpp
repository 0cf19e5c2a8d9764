// From LibTorch's tensors to what the engine works on.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/operation.hpp"

namespace kolo {

struct Call;

// A tensor of a call, as messages call it.
struct Argument {
  const Call& call;
  std::size_t index = 0;  // in a group
  std::size_t of = 1;     // so many
};

// The dtype by which a tensor's values are sent, or nothing where kolo cannot send them. A complex
// number is sent as two real ones.
std::optional<DType> dtype_sent(at::ScalarType type);

// "int32", "complex64": of a dtype that can be sent.
std::string name_of(at::ScalarType type);

// Makes the operation that works on `tensors` in place; descriptor.tensors is filled in. An
// allreduce works on any dense tensor where it lies. Otherwise, and for averages of integers, the
// engine works on a copy, which is copied back at the end. Throws InvalidArgumentError, naming the
// call, for tensors that kolo cannot take.
std::shared_ptr<Operation> make_operation(const Call& call, at::TensorList tensors,
                                          Descriptor descriptor);

// The dimensions of a dense tensor in the order in which they lie in memory. Those with one element
// are left out, because their strides mean nothing.
std::vector<std::int64_t> order_in_memory(const at::Tensor& tensor);

// Whether an allreduce of the tensor, unless it averages integers, works on the tensor's own
// memory.
bool is_reduced_in_place(const at::Tensor& tensor);

// For an operation on a device whose tensor `index` is float16 or bfloat16: takes its values from
// `values`, which is contiguous and float32 or float64, and puts the result there.
void set_outside(Operation& operation, std::size_t index, const at::Tensor& values);

// The result of a gather: for each tensor the rows of all ranks, and their number by rank.
struct Gathered {
  std::vector<at::Tensor> tensors;
  std::vector<std::vector<std::int64_t>> rows;
};

// Makes the operation that gathers rows of `tensors`, without changing them. Fills `gathered`.
std::shared_ptr<Operation> make_gather(const Call& call, const std::vector<at::Tensor>& tensors,
                                       const std::shared_ptr<Gathered>& gathered);

// Refuses tensors that kolo cannot take.
void check(const Argument& argument, const at::Tensor& tensor);

// A copy to work on for operations that are not in place: contiguous, without autograd's history.
at::Tensor working_copy(const Argument& argument, const at::Tensor& tensor);

}  // namespace kolo
