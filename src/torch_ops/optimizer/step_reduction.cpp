#include "torch_ops/optimizer/step_reduction.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cstddef>
#include <utility>

namespace kolo::detail {

void StepReduction::begin() {
  start_.clear();
  for (std::size_t i = 0; i < table_.size(); ++i) {
    const at::Tensor& parameter = table_[i].tensor;
    start_.push_back(parameter.defined() ? parameter.detach().clone() : at::Tensor());
  }
}

void StepReduction::take_steps() {
  const at::NoGradGuard no_grad;
  steps_.assign(start_.size(), {});
  for (std::size_t i = 0; i < start_.size(); ++i) {
    const at::Tensor& parameter = table_[i].tensor;
    if (!parameter.defined() || !start_[i].defined()) continue;
    // The parameter may lie in memory in another order on another rank.
    steps_[i] = (parameter.detach() - start_[i]).contiguous();
  }
  FirstError error;
  put_back(error);
  error.rethrow();
}

void StepReduction::put_back(FirstError& error) {
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> start = std::exchange(start_, {});
  for (std::size_t i = 0; i < start.size(); ++i) {
    const at::Tensor& parameter = table_[i].tensor;
    if (parameter.defined() && start[i].defined())
      error.catch_from([&] { parameter.copy_(start[i]); });
  }
}

// The step of a frozen parameter is forgotten: it may still have a gradient of this rank alone.
void StepReduction::reduce(const std::function<void()>& check, FirstError& error) {
  outbox_.send_steps(std::exchange(steps_, {}), error);
  bool is_good = false;
  error.catch_from([&] {
    check();
    is_good = true;
  });
  const at::NoGradGuard no_grad;
  outbox_.wait_for_steps(
      [&](std::size_t index, const at::Tensor& step) {
        if (is_good) table_[index].tensor.add_(step);
      },
      error);
}

void StepReduction::abandon() {
  FirstError ignored;
  put_back(ignored);
  steps_.clear();
  outbox_.wait_for_steps([](std::size_t /*index*/, const at::Tensor& /*step*/) {}, ignored);
}

}  // namespace kolo::detail
