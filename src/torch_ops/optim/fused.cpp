#include "kolo/optim/fused.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "torch_ops/optim/base.hpp"

namespace kolo::optim {
namespace {

using torch::Tensor;
using torch::optim::OptimizerParamGroup;

// The parameters of one kernel call share dtype, device and number of steps.
using Key = std::tuple<c10::DeviceType, c10::DeviceIndex, c10::ScalarType, std::int64_t>;

// A kernel treats a parameter, its gradient and its state as arrays, so all need the same memory
// layout: that of the parameter or, if it has gaps, of a copy without gaps.
class Batch {
 public:
  // Adds a parameter, which must have a gradient and at least one element.
  void add(const Tensor& parameter) {
    const Tensor whole = detail::as_real(parameter);
    values.push_back(whole.is_non_overlapping_and_dense() ? whole : whole.contiguous());
    if (!values.back().is_same(whole)) copies_.emplace_back(whole, values.back());
    gradients.push_back(like_value(detail::as_real(parameter.grad())));
  }
  // Returns the state of the last added parameter, with the parameter's strides. If the state has
  // other strides, as a checkpoint's may, replaces it by a copy.
  Tensor kept(Tensor& state, const Tensor& parameter) const {
    const Tensor real = detail::as_real(state);
    Tensor placed = like_value(real);
    if (!placed.is_same(real))
      state = parameter.is_complex() ? at::view_as_complex(placed) : placed;
    return placed;
  }
  // Called after the kernel, which does not raise the parameters' version counters.
  void finish() const {
    for (const auto& [whole, copy] : copies_) whole.copy_(copy);
    for (const Tensor& value : values)
      if (!value.is_inference()) value.unsafeGetTensorImpl()->bump_version();
  }

  std::vector<Tensor> values;
  std::vector<Tensor> gradients;
  std::vector<Tensor> first;    // part of the state: SGD's momentum, or the first moment
  std::vector<Tensor> second;   // the second moment
  std::vector<Tensor> largest;  // the maximum of the second moment so far

 private:
  Tensor like_value(const Tensor& tensor) const {
    const Tensor& value = values.back();
    if (tensor.strides() == value.strides()) return tensor;
    return at::empty_strided(value.sizes(), value.strides(), tensor.options()).copy_(tensor);
  }

  std::vector<std::pair<Tensor, Tensor>> copies_;  // of parameters with gaps
};
using Batches = std::map<Key, Batch>;

void make_if_missing(Tensor& state, const Tensor& parameter) {
  if (!state.defined()) state = at::zeros_like(parameter, at::MemoryFormat::Preserve);
}

Key key_of(const Tensor& parameter, std::int64_t step) {
  return {parameter.device().type(), parameter.device().index(), parameter.scalar_type(), step};
}

Tensor loss_of(const torch::optim::Optimizer::LossClosure& closure) {
  if (!closure) return {};
  const at::AutoGradMode enable_grad(true);
  return closure();
}

template <class State, class States>
State& state_of(States& states, const Tensor& parameter) {
  auto& state = states[parameter.unsafeGetTensorImpl()];
  if (!state) state = std::make_unique<State>();
  return static_cast<State&>(*state);
}

// Performs a step of Adam or AdamW, which differ only in the kernel.
template <class Options, class State, class States, class Kernel>
void step_adam(std::vector<OptimizerParamGroup>& groups, States& states, const Kernel& kernel) {
  for (OptimizerParamGroup& group : groups) {
    const auto& options = static_cast<const Options&>(group.options());
    Batches batches;
    for (const Tensor& parameter : group.params()) {
      if (!parameter.grad().defined()) continue;
      State& state = state_of<State>(states, parameter);
      state.step(state.step() + 1);
      make_if_missing(state.exp_avg(), parameter);
      make_if_missing(state.exp_avg_sq(), parameter);
      if (options.amsgrad()) make_if_missing(state.max_exp_avg_sq(), parameter);
      if (parameter.numel() == 0) continue;
      Batch& batch = batches[key_of(parameter, state.step())];
      batch.add(parameter);
      batch.first.push_back(batch.kept(state.exp_avg(), parameter));
      batch.second.push_back(batch.kept(state.exp_avg_sq(), parameter));
      if (options.amsgrad()) batch.largest.push_back(batch.kept(state.max_exp_avg_sq(), parameter));
    }
    for (auto& [key, batch] : batches) {
      const Tensor step =
          at::full({}, static_cast<double>(std::get<std::int64_t>(key)),
                   at::TensorOptions().dtype(at::kFloat).device(batch.values[0].device()));
      const std::vector<Tensor> steps(batch.values.size(), step);
      kernel(batch.values, batch.gradients, batch.first, batch.second, batch.largest, steps,
             options.lr(), std::get<0>(options.betas()), std::get<1>(options.betas()),
             options.weight_decay(), options.eps(), options.amsgrad(), /*maximize=*/false);
      batch.finish();
    }
  }
}

}  // namespace

Tensor FusedSGD::step(LossClosure closure) {
  const at::NoGradGuard no_grad;
  Tensor loss = loss_of(closure);
  detail::refuse_sparse("FusedSGD", param_groups_);
  for (OptimizerParamGroup& group : param_groups_) {
    const auto& options = static_cast<const torch::optim::SGDOptions&>(group.options());
    const bool has_momentum = options.momentum() != 0;
    Batches batches;
    for (const Tensor& parameter : group.params()) {
      if (!parameter.grad().defined()) continue;
      Tensor* momentum = nullptr;
      if (has_momentum)
        momentum = &state_of<torch::optim::SGDParamState>(state_, parameter).momentum_buffer();
      // The kernel only needs to know whether there were steps before.
      const bool is_first_step = momentum == nullptr || !momentum->defined();
      if (momentum != nullptr) make_if_missing(*momentum, parameter);
      if (parameter.numel() == 0) continue;
      Batch& batch = batches[key_of(parameter, is_first_step ? 0 : 1)];
      batch.add(parameter);
      if (momentum != nullptr) batch.first.push_back(batch.kept(*momentum, parameter));
    }
    for (auto& [key, batch] : batches) {
      at::_fused_sgd_(batch.values, batch.gradients, batch.first, options.weight_decay(),
                      options.momentum(), options.lr(), options.dampening(), options.nesterov(),
                      /*maximize=*/false, /*is_first_step=*/std::get<std::int64_t>(key) == 0);
      batch.finish();
    }
  }
  return loss;
}

Tensor FusedAdam::step(LossClosure closure) {
  const at::NoGradGuard no_grad;
  Tensor loss = loss_of(closure);
  detail::refuse_sparse("FusedAdam", param_groups_);
  step_adam<torch::optim::AdamOptions, torch::optim::AdamParamState>(
      param_groups_, state_, [](auto&&... arguments) { at::_fused_adam_(arguments...); });
  return loss;
}

Tensor FusedAdamW::step(LossClosure closure) {
  const at::NoGradGuard no_grad;
  Tensor loss = loss_of(closure);
  detail::refuse_sparse("FusedAdamW", param_groups_);
  step_adam<torch::optim::AdamWOptions, torch::optim::AdamWParamState>(
      param_groups_, state_, [](auto&&... arguments) { at::_fused_adamw_(arguments...); });
  return loss;
}

}  // namespace kolo::optim
