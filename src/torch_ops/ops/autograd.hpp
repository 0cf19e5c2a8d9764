// Operations that autograd differentiates. The gradient is that of the sum of all ranks' losses.
#pragma once

#include "torch_ops/ops/requests.hpp"

namespace kolo {

// Whether autograd has to record an operation on these tensors.
bool needs_gradient(const std::vector<at::Tensor>& tensors);

// Tells autograd that tensors, which it may have saved for backward(), have changed.
void note_change(at::TensorList tensors);

// Each runs the operation and waits; backward() later does the same with the gradient's operation.
// backward() throws InvalidArgumentError for reduce operators without a gradient.
std::vector<at::Tensor> differentiable_allreduce(const Call& call,
                                                 const std::vector<at::Tensor>& tensors,
                                                 const AllreduceOptions& options);
at::Tensor differentiable_reduce(const Call& call, const at::Tensor& tensor, int root_rank,
                                 const AllreduceOptions& options);
std::vector<at::Tensor> differentiable_broadcast(const Call& call,
                                                 const std::vector<at::Tensor>& tensors,
                                                 int root_rank);
std::vector<at::Tensor> differentiable_allgather(const Call& call,
                                                 const std::vector<at::Tensor>& tensors);
AlltoallResult differentiable_alltoall(const Call& call, const at::Tensor& tensor,
                                       const std::vector<std::int64_t>& splits);
std::vector<at::Tensor> differentiable_reducescatter(const Call& call,
                                                     const std::vector<at::Tensor>& tensors,
                                                     const ReducescatterOptions& options);

// Run an operation and wait.
std::vector<at::Tensor> run_allreduce(const Call& call, const std::vector<at::Tensor>& tensors,
                                      const AllreduceOptions& options);
at::Tensor run_reduce(const Call& call, const at::Tensor& tensor, int root_rank,
                      const AllreduceOptions& options);
std::vector<at::Tensor> run_broadcast(const Call& call, const std::vector<at::Tensor>& tensors,
                                      int root_rank);
std::shared_ptr<const Gathered> run_allgather(const Call& call,
                                              const std::vector<at::Tensor>& tensors);
AlltoallResult run_alltoall(const Call& call, const at::Tensor& tensor,
                            const std::vector<std::int64_t>& splits);
std::vector<at::Tensor> run_reducescatter(const Call& call, const std::vector<at::Tensor>& tensors,
                                          const ReducescatterOptions& options);

}  // namespace kolo
