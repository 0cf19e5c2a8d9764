// BatchNorm with the statistics of all ranks' batches together.
#pragma once

#include <kolo/modules.h>
#include <kolo/process_set.h>
#include <torch/nn/module.h>

#include <cstddef>

namespace kolo {
namespace detail {
std::size_t convert_sync_batchnorm(torch::nn::Module& module, const ProcessSet& process_set);
}  // namespace detail

// Makes each torch::nn::BatchNorm1d, 2d and 3d within the module normalise, in training, with the
// mean and the variance of the batches of all ranks of the process set: outputs, gradients and
// running statistics are those of one process with the whole batch. Evaluation does not change. The
// modules stay the same objects, so members of the program that refer to them need no change
// (LibTorch's aten::batch_norm is intercepted for their tensors); their clones are ordinary
// modules. Returns the number of modules.
//
// Every rank of the set calls it, for modules in the same order; it does not communicate. In
// training, forward and backward of each such module are then collective, with one operation each,
// named "sync_batchnorm.NUMBER.MODULE". Batches may differ in size between ranks (LibTorch's
// modules refuse a batch with a single value of a channel). A rank without further batches calls
// join(), which leaves its running statistics as they are: call broadcast_parameters() or
// average_buffers() after it. CPU and CUDA tensors. InvalidArgumentError for a module that has
// neither parameters nor running statistics, by which kolo would recognise it, and from backward()
// with create_graph.
template <class Module>
std::size_t convert_sync_batchnorm(const Module& module, const ProcessSet& process_set = {}) {
  return detail::convert_sync_batchnorm(
      const_cast<torch::nn::Module&>(
          static_cast<const torch::nn::Module&>(detail::module_in(module))),
      process_set);
}

}  // namespace kolo
