// Gives an operation of the engine its tensors. All throw InvalidArgumentError, which names the
// call, for tensors that kolo does not support.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "torch_ops/ops/call.hpp"

namespace kolo {

// The result of a gather: for each tensor, the rows of all ranks, and their number by rank.
struct Gathered {
  std::vector<at::Tensor> tensors;
  std::vector<std::vector<std::int64_t>> rows;
  // A tensor of the program that receives the rows, if it gave one (for a single tensor); and the
  // reason why they do not fit. In that case the rows lie in a new tensor.
  at::Tensor output = {};
  std::string misfit = {};

  // Returns the gathered rows. Throws if they do not fit into the program's own tensor.
  const at::Tensor& only() const;
};

void check_tensors(const Call& call, at::TensorList tensors);

// Throws unless the program's own tensor for a result is contiguous, has the dtype and device of
// `tensor` and rows of the same shape. `rows`: the number of rows that it must have, if known.
void check_output(const Call& call, const at::Tensor& output, const at::Tensor& tensor,
                  std::optional<std::int64_t> rows);
// Whether the two share memory.
bool overlap(const at::Tensor& one, const at::Tensor& other);

// Returns contiguous copies without autograd history, for operations that are not in place.
std::vector<at::Tensor> copies_of(const Call& call, at::TensorList tensors);

// Lets the operation work on `tensors` in place. Its operator and scales are set. An allreduce
// works on any dense tensor where it lies. Other operations, averages of integers and tensors that
// share memory with another one of the group work on a copy, which is copied back at the end.
// `ready`: the point at which the tensors, on a device, have their values; if null, the point that
// the current stream has reached.
void set_tensors(const Call& call, at::TensorList tensors, Operation& operation,
                 const std::shared_ptr<DevicePoint>& ready = nullptr);

// For an operation on a device whose tensor `index` is float16 or bfloat16: reads the values from
// `values`, which is contiguous and float32 or float64, and stores the result there.
void set_outside(Operation& operation, std::size_t index, const at::Tensor& values);

// Lets a reducescatter on the host reduce `tensors`, without changing them, and write this rank's
// share of the rows to `results`.
void set_shares(const Call& call, at::TensorList tensors, at::TensorList results,
                Operation& operation);

// Lets the operation gather rows of `tensors`, without changing them. It fills `gathered`.
void set_rows(const Call& call, const std::vector<at::Tensor>& tensors, Operation& operation,
              const std::shared_ptr<Gathered>& gathered);

}  // namespace kolo
