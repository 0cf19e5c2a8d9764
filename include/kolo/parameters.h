// Making ranks start from the same state.
#pragma once

#include <kolo/modules.h>
#include <kolo/process_set.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

namespace kolo {

// All are collective over the process set; root_rank is a rank among all.

// Parameters and buffers of `root_rank`'s module replace those of the other ranks, in
// place. The modules must have the same names, shapes and dtypes (MismatchError otherwise).
void broadcast_parameters(const torch::nn::Module& module, int root_rank = 0,
                          const ProcessSet& process_set = {});

// The same for a module that a holder or a std::shared_ptr refers to.
template <class Reference, std::enable_if_t<detail::refers_to_module<Reference>, int> = 0>
void broadcast_parameters(const Reference& module, int root_rank = 0,
                          const ProcessSet& process_set = {}) {
  broadcast_parameters(detail::module_in(module), root_rank, process_set);
}

// The same for tensors by name, and for a list (matched by position).
void broadcast_parameters(const torch::OrderedDict<std::string, at::Tensor>& tensors,
                          int root_rank = 0, const ProcessSet& process_set = {});
void broadcast_parameters(const std::vector<at::Tensor>& tensors, int root_rank = 0,
                          const ProcessSet& process_set = {});

// State (momentum, step counts, ...) and options (learning rate, ...) of `root_rank`'s
// optimizer replace those of the other ranks. The optimizers must be of the same class with
// parameters of the same number and shapes.
void broadcast_optimizer_state(torch::optim::Optimizer& optimizer, int root_rank = 0,
                               const ProcessSet& process_set = {});

}  // namespace kolo
