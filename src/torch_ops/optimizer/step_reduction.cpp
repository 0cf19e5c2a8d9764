#include "torch_ops/optimizer/step_reduction.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cstddef>
#include <utility>

namespace kolo::detail {

void StepReduction::begin() {
  start_.clear();
  for (std::size_t i = 0; i < table_.size(); ++i)
    start_.push_back(table_[i].tensor.detach().clone());
}

// The step of a frozen parameter is forgotten: it may still have a gradient of this rank alone.
void StepReduction::reduce(FirstError& error) {
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> start = std::exchange(start_, {});
  std::vector<at::Tensor> steps;
  steps.reserve(start.size());
  for (std::size_t i = 0; i < start.size(); ++i) {
    const at::Tensor& parameter = table_[i].tensor;
    // The parameter may lie in memory in another order on another rank.
    steps.push_back((parameter.detach() - start[i]).contiguous());
    parameter.copy_(start[i]);
  }
  outbox_.send_steps(steps, error);
  outbox_.wait_for_steps(
      [&](std::size_t index, const at::Tensor& step) { table_[index].tensor.add_(step); }, error);
}

}  // namespace kolo::detail
