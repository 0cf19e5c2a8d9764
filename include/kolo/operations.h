// Collective operations on tensors.
//
// All are collective over the process set of their options, by default all ranks. Ranks are always
// those among all ranks. Every rank submits the same operation under the same name, in any order
// among others. Without a name, operations are matched by the order in which a rank makes its
// unnamed calls, which then must be the same everywhere (a call that throws counts, too). The count
// starts again after join(). A name belongs to a kind of operation: an allreduce and a broadcast
// may share one. Ranks that wait for each other in operations of different kinds and one name get a
// MismatchError after KOLO_STALL_CHECK_TIME_SECONDS. A name may be used again when the operation of
// that kind has ended on this rank.
//
// Tensors are on the CPU or a CUDA device, of layout kStrided and any strides, of dtype uint8,
// int8, int16, int32, int64, float16, bfloat16, float32, float64, complex64, complex128 or bool; of
// the same shape and dtype on every rank, but for dimension 0 where a function says so. In place,
// an allreduce of a tensor that is dense but not contiguous (channels last) works on the tensor's
// own memory; there the strides must be the same on every rank.
//
// The plain and in-place forms wait for the result. Errors (kolo/error.h): NotInitializedError,
// InvalidArgumentError (a tensor or option that is wrong here; the other ranks, which would wait,
// get a MismatchError that says so), DuplicateNameError, MismatchError (ranks disagree; on every
// rank), PeerLostError. For the _async forms the last two come from Handle::wait(). After an error
// the name may be used again at once.
//
// Autograd goes through the plain forms, as through one program that runs on all ranks and whose
// loss is the sum of the ranks' losses. backward() is then collective. It does not go through the
// others. (Horovod has the same gradients for allreduce and alltoall; those of its broadcast and
// allgather are divided by the number of ranks, and those of its reducescatter multiplied by it.)
//
// A group of tensors goes together: all of them or, after an error, none. Small ones travel in
// common messages (KOLO_FUSION_TENSOR_LIMIT, KOLO_DISABLE_GROUP_FUSION).
#pragma once

#include <ATen/core/Tensor.h>
#include <kolo/handle.h>
#include <kolo/process_set.h>
#include <kolo/types.h>
#include <torch/arg.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace kolo {

// Of operations that know no others.
struct OperationOptions {
  OperationOptions() = default;
  // So that a name alone will do for the options.
  /* implicit */ OperationOptions(const char* operation_name) : name_(operation_name) {}
  /* implicit */ OperationOptions(std::string operation_name) : name_(std::move(operation_name)) {}

  // By which ranks find each other's tensors; empty: kolo makes one.
  TORCH_ARG(std::string, name) = "";
  // The ranks that take part.
  TORCH_ARG(ProcessSet, process_set) = ProcessSet();
};

// Of operations that compute with the ranks' tensors.
struct AllreduceOptions {
  AllreduceOptions() = default;
  // So that an operator or a name alone will do for the options.
  /* implicit */ AllreduceOptions(ReduceOp reduce_op) : op_(reduce_op) {}
  /* implicit */ AllreduceOptions(const char* operation_name) : name_(operation_name) {}
  /* implicit */ AllreduceOptions(std::string operation_name) : name_(std::move(operation_name)) {}

  // By which ranks find each other's tensors; empty: kolo makes one.
  TORCH_ARG(std::string, name) = "";
  // What is computed, element by element.
  TORCH_ARG(ReduceOp, op) = ReduceOp::Average;
  // Multiplied in before and after the reduction. Integers are scaled in float64, rounded towards
  // zero and held within the range of their dtype (before an average: of int64). Factors for
  // integers must be finite.
  TORCH_ARG(double, prescale_factor) = 1.0;
  TORCH_ARG(double, postscale_factor) = 1.0;

  // The ranks that take part.
  TORCH_ARG(ProcessSet, process_set) = ProcessSet();
};

// The same ones.
using ReducescatterOptions = AllreduceOptions;

// The reduction of all ranks' tensors, as a new tensor or in place. bool has Min, Max and Product,
// complex dtypes have Sum and Average; Adasum is for floating point. Sum and Average are
// differentiable.
at::Tensor allreduce(const at::Tensor& tensor, const AllreduceOptions& options = {});
at::Tensor allreduce_(at::Tensor tensor, const AllreduceOptions& options = {});
Handle allreduce_async(const at::Tensor& tensor, const AllreduceOptions& options = {});
Handle allreduce_async_(at::Tensor tensor, const AllreduceOptions& options = {});

// The same of several tensors at once, which are reduced together.
std::vector<at::Tensor> grouped_allreduce(const std::vector<at::Tensor>& tensors,
                                          const AllreduceOptions& options = {});
std::vector<at::Tensor> grouped_allreduce_(std::vector<at::Tensor> tensors,
                                           const AllreduceOptions& options = {});
GroupHandle grouped_allreduce_async(const std::vector<at::Tensor>& tensors,
                                    const AllreduceOptions& options = {});
GroupHandle grouped_allreduce_async_(std::vector<at::Tensor> tensors,
                                     const AllreduceOptions& options = {});

// The tensor of rank `root_rank`, as a new tensor or in place.
at::Tensor broadcast(const at::Tensor& tensor, int root_rank, const OperationOptions& options = {});
at::Tensor broadcast_(at::Tensor tensor, int root_rank, const OperationOptions& options = {});
Handle broadcast_async(const at::Tensor& tensor, int root_rank,
                       const OperationOptions& options = {});
Handle broadcast_async_(at::Tensor tensor, int root_rank, const OperationOptions& options = {});

// The same of several tensors at once.
std::vector<at::Tensor> grouped_broadcast(const std::vector<at::Tensor>& tensors, int root_rank,
                                          const OperationOptions& options = {});
std::vector<at::Tensor> grouped_broadcast_(std::vector<at::Tensor> tensors, int root_rank,
                                           const OperationOptions& options = {});
GroupHandle grouped_broadcast_async(const std::vector<at::Tensor>& tensors, int root_rank,
                                    const OperationOptions& options = {});
GroupHandle grouped_broadcast_async_(std::vector<at::Tensor> tensors, int root_rank,
                                     const OperationOptions& options = {});

// The tensors of all ranks, one after the other along dimension 0, whose extent may differ from
// rank to rank. A tensor without dimensions is an error.
at::Tensor allgather(const at::Tensor& tensor, const OperationOptions& options = {});
Handle allgather_async(const at::Tensor& tensor, const OperationOptions& options = {});
std::vector<at::Tensor> grouped_allgather(const std::vector<at::Tensor>& tensors,
                                          const OperationOptions& options = {});
GroupHandle grouped_allgather_async(const std::vector<at::Tensor>& tensors,
                                    const OperationOptions& options = {});

// What the ranks have for this one.
struct AlltoallResult {
  at::Tensor output;                          // rank 0's rows, then rank 1's, ...
  std::vector<std::int64_t> received_splits;  // how many rows came from each rank
};
// Of an alltoall in flight.
using AlltoallHandle = BasicHandle<AlltoallResult>;

// Gives splits[r] rows (along dimension 0, in order) to each rank r. The splits add up to the
// extent of dimension 0; none: the same number for each rank, which must be whole.
AlltoallResult alltoall(const at::Tensor& tensor, const std::vector<std::int64_t>& splits = {},
                        const OperationOptions& options = {});
AlltoallHandle alltoall_async(const at::Tensor& tensor,
                              const std::vector<std::int64_t>& splits = {},
                              const OperationOptions& options = {});

// Reduces, and gives each rank its share of the rows (along dimension 0, in order). Where they
// cannot be shared evenly the first ranks get one more. A tensor without dimensions, and Adasum,
// are errors. Sum and Average are differentiable.
at::Tensor reducescatter(const at::Tensor& tensor, const ReducescatterOptions& options = {});
Handle reducescatter_async(const at::Tensor& tensor, const ReducescatterOptions& options = {});
std::vector<at::Tensor> grouped_reducescatter(const std::vector<at::Tensor>& tensors,
                                              const ReducescatterOptions& options = {});
GroupHandle grouped_reducescatter_async(const std::vector<at::Tensor>& tensors,
                                        const ReducescatterOptions& options = {});

// The reduction (Sum or Average) of sparse COO tensors of the same size: the elements that any rank
// has, as a coalesced tensor. Ranks exchange indices and values.
at::Tensor sparse_allreduce(const at::Tensor& tensor, const AllreduceOptions& options = {});
Handle sparse_allreduce_async(const at::Tensor& tensor, const AllreduceOptions& options = {});

// --- between two ranks; the others take no part ---
//
// A send and a receive belong together when source, destination and name are the same; without
// names, in the order in which the two ranks make them. Same shape and dtype on both. Autograd goes
// through the plain forms: send() gives a scalar 0 on which the sending rank calls backward() (or
// which it adds to its loss) to receive its tensor's gradient, while the receiving rank's
// backward() sends it. recv() takes part in autograd if `like` requires a gradient.

// Waits until the other rank has it.
at::Tensor send(const at::Tensor& tensor, int destination, const OperationOptions& options = {});
// A new tensor, of the shape and dtype of `like`, whose values are not looked at.
at::Tensor recv(const at::Tensor& like, int source, const OperationOptions& options = {});
at::Tensor recv_(at::Tensor tensor, int source, const OperationOptions& options = {});
Handle send_async(const at::Tensor& tensor, int destination, const OperationOptions& options = {});
Handle recv_async_(at::Tensor tensor, int source, const OperationOptions& options = {});
// Both at once, so that ranks in a ring need no order. Not differentiable.
at::Tensor sendrecv(const at::Tensor& tensor, int destination, const at::Tensor& like, int source,
                    const OperationOptions& options = {});

// Waits until every rank has called it.
void barrier(const OperationOptions& options = {});

// This rank has no more data: waits until all ranks have called it, and takes part meanwhile in
// what the others do, with values that change nothing (in a gather: none). Average still divides by
// the number of all ranks. Returns the rank that was last (among all). PeerLostError
// if a rank shuts kolo down without joining.
int join(const ProcessSet& process_set = {});

}  // namespace kolo
