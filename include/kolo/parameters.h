// Making ranks start from the same state.
#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

namespace kolo {

// Collective. Parameters and buffers of `root_rank`'s module replace those of the other ranks, in
// place. The modules must have the same names, shapes and dtypes (MismatchError otherwise).
void broadcast_parameters(const torch::nn::Module& module, int root_rank = 0);

// Collective. The same for tensors by name, and for a list (matched by position).
void broadcast_parameters(const torch::OrderedDict<std::string, at::Tensor>& tensors,
                          int root_rank = 0);
void broadcast_parameters(const std::vector<at::Tensor>& tensors, int root_rank = 0);

// Collective. State (momentum, step counts, ...) and options (learning rate, ...) of `root_rank`'s
// optimizer replace those of the other ranks. The optimizers must be of the same class with
// parameters of the same number and shapes.
void broadcast_optimizer_state(torch::optim::Optimizer& optimizer, int root_rank = 0);

}  // namespace kolo
