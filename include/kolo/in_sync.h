// Checks that the ranks have the same values.
#pragma once

#include <ATen/core/Tensor.h>
#include <kolo/modules.h>
#include <kolo/operations.h>
#include <torch/optim/optimizer.h>

#include <string>
#include <type_traits>

namespace kolo {

namespace detail {
void check_in_sync(const std::string& who, const NamedTensors& parameters,
                   const NamedTensors& buffers, torch::optim::Optimizer* optimizer,
                   const OperationOptions& options);
}  // namespace detail

// All functions are collective over the process set of their options.

// Throws a MismatchError on all ranks unless the module's parameters and buffers have the same bits
// on all of them. The message names the first difference and the ranks. Collective over the process
// set of the options. Each rank hashes all values (CUDA tensors are copied to the host), and one
// allreduce of two numbers compares the hashes. Only if they differ, the ranks gather all hashes.
// For modules see kolo/modules.h.
template <class Module, std::enable_if_t<detail::is_module<Module>, int> = 0>
void check_in_sync(const Module& module, const OperationOptions& options = {}) {
  detail::check_in_sync("check_in_sync()", detail::named_parameters_of(module),
                        detail::named_buffers_of(module), nullptr, options);
}

// The same, with the optimizer's options (learning rates, ...) and state.
template <class Module, std::enable_if_t<detail::is_module<Module>, int> = 0>
void check_in_sync(const Module& module, torch::optim::Optimizer& optimizer,
                   const OperationOptions& options = {}) {
  detail::check_in_sync("check_in_sync()", detail::named_parameters_of(module),
                        detail::named_buffers_of(module), &optimizer, options);
}

// The same for any tensor, such as the order in which a dataset is read. `what` names it in the
// message.
void check_in_sync(const std::string& what, const at::Tensor& tensor,
                   const OperationOptions& options = {});

}  // namespace kolo
