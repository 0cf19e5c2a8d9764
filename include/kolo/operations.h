// Collective operations on tensors.
//
// All are collective: every rank submits the same operation under the same name, in any order among
// others. Without a name, operations are matched by the order in which a rank makes its unnamed
// calls, which then must be the same everywhere. A name may be used again when its operation has
// ended on this rank.
//
// Tensors are dense CPU tensors of any shape and strides, of dtype uint8, int8, int16, int32,
// int64, float16, bfloat16, float32, float64 or bool; the same shape and dtype on every rank.
//
// The plain and in-place forms wait for the result. Errors (kolo/error.h): NotInitializedError,
// InvalidArgumentError (a tensor or option that is wrong here), DuplicateNameError, MismatchError
// (ranks disagree; on every rank), PeerLostError. For the _async forms the last two come from
// Handle::wait(). Gradients do not flow through these operations.
#pragma once

#include <ATen/core/Tensor.h>
#include <kolo/handle.h>
#include <kolo/types.h>
#include <torch/arg.h>

#include <string>
#include <utility>

namespace kolo {

struct AllreduceOptions {
  AllreduceOptions() = default;
  /* implicit */ AllreduceOptions(ReduceOp reduce_op) : op_(reduce_op) {}
  /* implicit */ AllreduceOptions(const char* operation_name) : name_(operation_name) {}
  /* implicit */ AllreduceOptions(std::string operation_name) : name_(std::move(operation_name)) {}

  TORCH_ARG(std::string, name) = "";
  TORCH_ARG(ReduceOp, op) = ReduceOp::Average;
  // Multiplied in before and after the reduction; see scale() in docs/architecture.md for integers.
  TORCH_ARG(double, prescale_factor) = 1.0;
  TORCH_ARG(double, postscale_factor) = 1.0;
};

// The reduction of all ranks' tensors, as a new tensor or in place. bool has Min, Max and Product.
at::Tensor allreduce(const at::Tensor& tensor, const AllreduceOptions& options = {});
at::Tensor allreduce_(at::Tensor tensor, const AllreduceOptions& options = {});
Handle allreduce_async(const at::Tensor& tensor, const AllreduceOptions& options = {});
Handle allreduce_async_(at::Tensor tensor, const AllreduceOptions& options = {});

// The tensor of rank `root_rank`, as a new tensor or in place.
at::Tensor broadcast(const at::Tensor& tensor, int root_rank, const std::string& name = "");
at::Tensor broadcast_(at::Tensor tensor, int root_rank, const std::string& name = "");
Handle broadcast_async(const at::Tensor& tensor, int root_rank, const std::string& name = "");
Handle broadcast_async_(at::Tensor tensor, int root_rank, const std::string& name = "");

}  // namespace kolo
