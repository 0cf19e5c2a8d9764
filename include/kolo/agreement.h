// Values and decisions that are the same on all ranks.
#pragma once

#include <ATen/core/Tensor.h>
#include <kolo/in_sync.h>
#include <kolo/modules.h>
#include <kolo/operations.h>
#include <torch/nn/module.h>

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace kolo {

// All functions are collective over the process set of their options, and give every rank the same
// result.

// Returns the weighted mean of the ranks' values: the sum of weight * value divided by the sum of
// the weights. `weight` is usually the number of samples behind `value`. It may be 0.
// InvalidArgumentError on all ranks if a weight is negative or not finite, or all weights are 0.
double average(double value, double weight = 1.0, const OperationOptions& options = {});

// The same element by element, for a floating-point tensor of the same shape and dtype on every
// rank. Returns a new tensor of this shape and dtype. It has no gradient; see allreduce() for one.
at::Tensor average(const at::Tensor& value, double weight = 1.0,
                   const OperationOptions& options = {});

// Whether the condition is true on all ranks. For decisions that ranks must make together: to stop,
// to skip a step, to lower the learning rate. (`!agree(!condition)`: whether it is true on any
// rank.)
bool agree(bool condition, const OperationOptions& options = {});

namespace detail {
void average_buffers(const NamedTensors& buffers, const ProcessSet& process_set);
}  // namespace detail

// Replaces, in place, each floating-point buffer (such as BatchNorm's running statistics) by the
// average over the ranks, and each other buffer by that of the process set's first rank. Collective
// over `process_set`.
template <class Module, std::enable_if_t<detail::is_module<Module>, int> = 0>
void average_buffers(const Module& module, const ProcessSet& process_set = {}) {
  detail::average_buffers(detail::named_buffers_of(module), process_set);
}

}  // namespace kolo
