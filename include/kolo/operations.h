// Collective operations on tensors.
//
// All functions are collective over the process set of their options (by default all ranks), except
// send and receive. Rank numbers are always those among all ranks, also in a process set. Every
// rank submits the same operations under the same names; the order may differ. kolo matches unnamed
// operations by their sequence number, so every rank must make its unnamed calls in the same order.
// A call that throws counts, too. Numbering restarts after join(). Each kind of operation has its
// own names: an allreduce and a broadcast may share one. If ranks wait for each other in different
// kinds of operation under one name, they get a MismatchError after KOLO_STALL_CHECK_TIME_SECONDS.
// A name is free again when its operation has ended on this rank.
//
// Tensors are on the CPU or a CUDA device, have layout kStrided, and may have any strides. Dtypes:
// uint8, int8, int16, int32, int64, float16, bfloat16, float32, float64, complex64, complex128 and
// bool. Shape and dtype must be the same on every rank; some functions allow dimension 0 to differ.
// An in-place allreduce of a tensor that is dense but not contiguous (channels last) works on the
// tensor's own memory, so its strides must be the same on every rank.
//
// The plain and in-place forms wait for the result. Errors (kolo/error.h): NotInitializedError;
// InvalidArgumentError if a tensor or option is wrong on this rank (ranks that would wait for this
// one get a MismatchError with the reason); DuplicateNameError; MismatchError on every rank if the
// ranks disagree; PeerLostError. The _async forms report the last two from Handle::wait(). After an
// error the name may be used again at once.
//
// The _into forms write the result into a tensor of the program instead of a new one. `output` is
// contiguous, has the dtype and the device of `tensor` and the shape of the result, and shares no
// memory with `tensor`. Only the exchange shows how many rows the ranks of a gather give. If
// `output` has another number of rows, this rank gets an InvalidArgumentError and `output` keeps
// its values; the other ranks get their results.
//
// The plain forms are differentiable; the in-place, _into and _async forms are not. Gradients are
// those of one program that runs on all ranks and whose loss is the sum of the ranks' losses.
// backward() is then collective. (Horovod has the same gradients for allreduce and alltoall. Its
// gradients of broadcast and allgather are divided by the number of ranks, and those of
// reducescatter are multiplied by it.)
//
// The tensors of a grouped call succeed or fail together. Small ones are sent in common messages
// (KOLO_FUSION_TENSOR_LIMIT, KOLO_DISABLE_GROUP_FUSION).
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

// Options for operations with no other settings.
struct OperationOptions {
  OperationOptions() = default;
  // Implicit conversions, so that a call can pass only a name: barrier("epoch").
  /* implicit */ OperationOptions(const char* operation_name) : name_(operation_name) {}
  /* implicit */ OperationOptions(std::string operation_name) : name_(std::move(operation_name)) {}

  // Name that identifies the operation on all ranks. If empty, kolo generates one.
  TORCH_ARG(std::string, name) = "";
  // The ranks that take part.
  TORCH_ARG(ProcessSet, process_set) = ProcessSet();
};

// Options for reductions.
struct AllreduceOptions {
  AllreduceOptions() = default;
  // Implicit conversions, so that a call can pass only an operator or a name.
  /* implicit */ AllreduceOptions(ReduceOp reduce_op) : op_(reduce_op) {}
  /* implicit */ AllreduceOptions(const char* operation_name) : name_(operation_name) {}
  /* implicit */ AllreduceOptions(std::string operation_name) : name_(std::move(operation_name)) {}

  // Name that identifies the operation on all ranks. If empty, kolo generates one.
  TORCH_ARG(std::string, name) = "";
  // Operator that combines the ranks' values element by element.
  TORCH_ARG(ReduceOp, op) = ReduceOp::Average;
  // Factors applied to the values before and after the reduction. Integers are scaled in float64,
  // rounded towards zero and clamped to the range of their dtype; before an average, to the range
  // of int64. Factors for integers must be finite.
  TORCH_ARG(double, prescale_factor) = 1.0;
  TORCH_ARG(double, postscale_factor) = 1.0;

  // The ranks that take part.
  TORCH_ARG(ProcessSet, process_set) = ProcessSet();
};

// reducescatter() takes the same options as allreduce().
using ReducescatterOptions = AllreduceOptions;

// Reduces the ranks' tensors and gives every rank the result. allreduce() returns it as a new
// tensor; allreduce_() overwrites `tensor` and returns it. The _async forms return at once; their
// handle's wait() gives the result. bool supports Min, Max and Product; complex dtypes support Sum
// and Average; Adasum supports floating point only. Sum and Average are differentiable.
at::Tensor allreduce(const at::Tensor& tensor, const AllreduceOptions& options = {});
at::Tensor allreduce_(at::Tensor tensor, const AllreduceOptions& options = {});
Handle allreduce_async(const at::Tensor& tensor, const AllreduceOptions& options = {});
Handle allreduce_async_(at::Tensor tensor, const AllreduceOptions& options = {});

// Reduce several tensors as one operation. Results have the order of `tensors`.
std::vector<at::Tensor> grouped_allreduce(const std::vector<at::Tensor>& tensors,
                                          const AllreduceOptions& options = {});
std::vector<at::Tensor> grouped_allreduce_(std::vector<at::Tensor> tensors,
                                           const AllreduceOptions& options = {});
GroupHandle grouped_allreduce_async(const std::vector<at::Tensor>& tensors,
                                    const AllreduceOptions& options = {});
GroupHandle grouped_allreduce_async_(std::vector<at::Tensor> tensors,
                                     const AllreduceOptions& options = {});

// Reduces the tensors of all ranks for rank `root_rank`, into a new tensor or in place. The other
// ranks get zeros; in place they keep their values. One takes as long as one allreduce, and small
// ones are not fused. Sum and Average are differentiable: all ranks call backward() through their
// results, and get the gradient that the root has.
at::Tensor reduce(const at::Tensor& tensor, int root_rank, const AllreduceOptions& options = {});
at::Tensor reduce_(at::Tensor tensor, int root_rank, const AllreduceOptions& options = {});
Handle reduce_async(const at::Tensor& tensor, int root_rank, const AllreduceOptions& options = {});
Handle reduce_async_(at::Tensor tensor, int root_rank, const AllreduceOptions& options = {});

// Copies the tensor of rank `root_rank` to every rank, into a new tensor or in place. On the other
// ranks `tensor` only provides shape and dtype.
at::Tensor broadcast(const at::Tensor& tensor, int root_rank, const OperationOptions& options = {});
at::Tensor broadcast_(at::Tensor tensor, int root_rank, const OperationOptions& options = {});
Handle broadcast_async(const at::Tensor& tensor, int root_rank,
                       const OperationOptions& options = {});
Handle broadcast_async_(at::Tensor tensor, int root_rank, const OperationOptions& options = {});

// Broadcast several tensors as one operation. Results have the order of `tensors`.
std::vector<at::Tensor> grouped_broadcast(const std::vector<at::Tensor>& tensors, int root_rank,
                                          const OperationOptions& options = {});
std::vector<at::Tensor> grouped_broadcast_(std::vector<at::Tensor> tensors, int root_rank,
                                           const OperationOptions& options = {});
GroupHandle grouped_broadcast_async(const std::vector<at::Tensor>& tensors, int root_rank,
                                    const OperationOptions& options = {});
GroupHandle grouped_broadcast_async_(std::vector<at::Tensor> tensors, int root_rank,
                                     const OperationOptions& options = {});

// Concatenates the tensors of all ranks along dimension 0, in the order of ranks. The extent of
// dimension 0 may differ between ranks. A tensor without dimensions is an InvalidArgumentError.
at::Tensor allgather(const at::Tensor& tensor, const OperationOptions& options = {});
Handle allgather_async(const at::Tensor& tensor, const OperationOptions& options = {});
// Here `tensor` may also be this rank's own rows of `output`.
at::Tensor allgather_into(at::Tensor output, const at::Tensor& tensor,
                          const OperationOptions& options = {});
Handle allgather_into_async(at::Tensor output, const at::Tensor& tensor,
                            const OperationOptions& options = {});
std::vector<at::Tensor> grouped_allgather(const std::vector<at::Tensor>& tensors,
                                          const OperationOptions& options = {});
GroupHandle grouped_allgather_async(const std::vector<at::Tensor>& tensors,
                                    const OperationOptions& options = {});

// Result of an alltoall.
struct AlltoallResult {
  at::Tensor output;                          // rank 0's rows, then rank 1's, ...
  std::vector<std::int64_t> received_splits;  // how many rows came from each rank
};
// Handle of an alltoall in flight.
using AlltoallHandle = BasicHandle<AlltoallResult>;

// Sends splits[r] rows (along dimension 0, in order) to each rank r. `splits` has one entry per
// rank; the entries add up to the extent of dimension 0. If `splits` is empty, every rank gets the
// same number of rows, and the extent must be a multiple of the number of ranks. Otherwise
// InvalidArgumentError.
AlltoallResult alltoall(const at::Tensor& tensor, const std::vector<std::int64_t>& splits = {},
                        const OperationOptions& options = {});
AlltoallHandle alltoall_async(const at::Tensor& tensor,
                              const std::vector<std::int64_t>& splits = {},
                              const OperationOptions& options = {});
AlltoallResult alltoall_into(at::Tensor output, const at::Tensor& tensor,
                             const std::vector<std::int64_t>& splits = {},
                             const OperationOptions& options = {});
AlltoallHandle alltoall_into_async(at::Tensor output, const at::Tensor& tensor,
                                   const std::vector<std::int64_t>& splits = {},
                                   const OperationOptions& options = {});

// Reduces the ranks' tensors, and gives each rank a share of the rows (along dimension 0, in
// order). If the rows cannot be divided evenly, the first ranks get one more. Sum and Average are
// differentiable. InvalidArgumentError for a tensor without dimensions, and for Adasum.
at::Tensor reducescatter(const at::Tensor& tensor, const ReducescatterOptions& options = {});
Handle reducescatter_async(const at::Tensor& tensor, const ReducescatterOptions& options = {});
at::Tensor reducescatter_into(at::Tensor output, const at::Tensor& tensor,
                              const ReducescatterOptions& options = {});
Handle reducescatter_into_async(at::Tensor output, const at::Tensor& tensor,
                                const ReducescatterOptions& options = {});
std::vector<at::Tensor> grouped_reducescatter(const std::vector<at::Tensor>& tensors,
                                              const ReducescatterOptions& options = {});
GroupHandle grouped_reducescatter_async(const std::vector<at::Tensor>& tensors,
                                        const ReducescatterOptions& options = {});

// Reduces sparse COO tensors of the same size (Sum or Average), and returns a coalesced tensor with
// every element that at least one rank has. The ranks exchange indices and values.
at::Tensor sparse_allreduce(const at::Tensor& tensor, const AllreduceOptions& options = {});
Handle sparse_allreduce_async(const at::Tensor& tensor, const AllreduceOptions& options = {});

// --- between two ranks; the others take no part ---
//
// A send and a receive match if source, destination and name are equal. Unnamed ones match in the
// order in which the two ranks call them. Both ranks give the same shape and dtype. Autograd goes
// through the plain forms. send() returns a scalar 0: the sending rank calls backward() on it, or
// adds it to its loss, and so receives the gradient of its tensor. The receiving rank's backward()
// sends that gradient. recv() takes part in autograd if `like` requires a gradient.

// Waits until the destination takes part and `tensor` may change. Returns a scalar 0, see above.
at::Tensor send(const at::Tensor& tensor, int destination, const OperationOptions& options = {});
// Receives a new tensor with the shape and dtype of `like`. The values of `like` are not used.
at::Tensor recv(const at::Tensor& like, int source, const OperationOptions& options = {});
at::Tensor recv_(at::Tensor tensor, int source, const OperationOptions& options = {});
Handle send_async(const at::Tensor& tensor, int destination, const OperationOptions& options = {});
Handle recv_async_(at::Tensor tensor, int source, const OperationOptions& options = {});
// Sends and receives at the same time, so ranks in a ring need not agree on an order. Returns the
// received tensor. Not differentiable.
at::Tensor sendrecv(const at::Tensor& tensor, int destination, const at::Tensor& like, int source,
                    const OperationOptions& options = {});

// Waits until every rank of the process set has called it.
void barrier(const OperationOptions& options = {});

// Marks this rank as out of data, and waits until all ranks of the set have called join(). Until
// then its threads can submit nothing to the set, and it takes part in the others' operations with
// values that change nothing and no rows. Average still divides by the number of all ranks. Returns
// the last rank that joined, in the job. PeerLostError if a rank shuts kolo down without joining.
int join(const ProcessSet& process_set = {});

}  // namespace kolo
