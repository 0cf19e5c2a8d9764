// Copies parameters and optimizer state to all ranks, so that they start from the same state.
#pragma once

#include <kolo/modules.h>
#include <kolo/process_set.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

namespace kolo {

// Copies the parameters and buffers of `root_rank`'s module to the other ranks, in place. The
// modules must have the same names, shapes and dtypes (MismatchError otherwise). All functions here
// are collective over the process set; root_rank is numbered among all ranks.
void broadcast_parameters(const torch::nn::Module& module, int root_rank = 0,
                          const ProcessSet& process_set = {});

// The same for tensors by name, and for a list (matched by position).
void broadcast_parameters(const torch::OrderedDict<std::string, at::Tensor>& tensors,
                          int root_rank = 0, const ProcessSet& process_set = {});
void broadcast_parameters(const std::vector<at::Tensor>& tensors, int root_rank = 0,
                          const ProcessSet& process_set = {});

// The same for other kinds of modules: holders, pointers and torch::jit::Module.
template <class Module,
          std::enable_if_t<detail::is_module<Module> &&
                               !std::is_base_of_v<torch::nn::Module, std::decay_t<Module>>,
                           int> = 0>
void broadcast_parameters(const Module& module, int root_rank = 0,
                          const ProcessSet& process_set = {}) {
  if constexpr (detail::refers_to_module<Module>) {
    broadcast_parameters(detail::module_in(module), root_rank, process_set);
  } else {
    torch::OrderedDict<std::string, at::Tensor> tensors;
    for (const auto& [name, tensor] : detail::named_parameters_of(module))
      tensors.insert(name, tensor);
    for (const auto& [name, tensor] : detail::named_buffers_of(module))
      tensors.insert(name, tensor);
    broadcast_parameters(tensors, root_rank, process_set);
  }
}

// Copies the state (momentum, step counts, ...) and options (learning rate, ...) of `root_rank`'s
// optimizer to the other ranks. The optimizers must be of the same class, with parameters of the
// same number and shapes.
void broadcast_optimizer_state(torch::optim::Optimizer& optimizer, int root_rank = 0,
                               const ProcessSet& process_set = {});

}  // namespace kolo
