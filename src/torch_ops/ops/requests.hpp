// Builds the engine's operations from calls of the API and their tensors, and submits them: for the
// public operations and the optimizer alike.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "kolo/operations.h"
#include "torch_ops/ops/call.hpp"
#include "torch_ops/ops/operation_tensors.hpp"

namespace kolo {

// Refuses factors by which tensors of the dtype cannot be scaled.
void check_scales(const Call& call, at::ScalarType dtype, const AllreduceOptions& options);

// These functions check their arguments. If one is invalid, they give the call up and throw
// InvalidArgumentError. The operations work on `results` in place.

// `ready`: see set_tensors().
std::shared_ptr<Operation> make_allreduce(const Call& call, at::TensorList results,
                                          const AllreduceOptions& options,
                                          const std::shared_ptr<DevicePoint>& ready = nullptr);
std::shared_ptr<Operation> make_broadcast(const Call& call, at::TensorList results, int root_rank);
// On ranks other than the root the values of `work` are lost.
std::shared_ptr<Operation> make_reduce(const Call& call, const at::Tensor& work, int root_rank,
                                       const AllreduceOptions& options);
// Returns what a reduce that is not in place gives this rank: `work`, or zeros.
at::Tensor result_of_reduce(const Call& call, const at::Tensor& work, int root_rank);
// Gathers into `gathered->output` if it is defined (for one tensor), otherwise into new tensors.
std::shared_ptr<Operation> make_allgather(const Call& call, const std::vector<at::Tensor>& tensors,
                                          const std::shared_ptr<Gathered>& gathered);
// Without splits, every rank gets the same number of rows.
std::shared_ptr<Operation> make_alltoall(const Call& call, const at::Tensor& tensor,
                                         std::vector<std::int64_t> splits,
                                         const std::shared_ptr<Gathered>& gathered);
// The operation fills `results`. This function creates them if the vector is empty.
std::shared_ptr<Operation> make_reducescatter(const Call& call,
                                              const std::vector<at::Tensor>& tensors,
                                              const ReducescatterOptions& options,
                                              std::vector<at::Tensor>& results);
// Either end of a message: the source sends the tensor, the destination receives into it.
std::shared_ptr<Operation> make_send(const Call& call, const at::Tensor& tensor);

// Return copies to work on. They, too, give the call up for tensors that kolo does not support.
at::Tensor working_copy(const Call& call, const at::Tensor& tensor);
std::vector<at::Tensor> working_copies(const Call& call, const std::vector<at::Tensor>& tensors);

// An operation that was submitted to the engine.
struct Submission {
  std::shared_ptr<Session> session;  // its engine answers even after shutdown()
  std::shared_ptr<Operation> operation;
  std::shared_ptr<Device> device;  // of its tensors; null: on the host

  // Waits for the end. Throws the operation's error.
  void wait(std::optional<Clock::duration> limit, WaitsOnDevice& results) const {
    throw_if_error(session->engine().wait(operation, limit));
    results.wait(device.get(), *operation);
  }
};

// Submits the operation to the engine of the call's session. Throws if the engine refuses it.
Submission submit(const Call& call, std::shared_ptr<Operation> operation);

// A sparse allreduce that was submitted.
struct SparseReduction {
  Submission submission;
  std::function<at::Tensor()> result;  // called after success, unless no rank has given anything
};

// See sparse_allreduce(). `absent`: this rank gives nothing; the tensor has no values.
SparseReduction submit_sparse_allreduce(const Call& call, const at::Tensor& tensor,
                                        const AllreduceOptions& options, bool absent);

}  // namespace kolo
