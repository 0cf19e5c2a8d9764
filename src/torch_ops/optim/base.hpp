// Implements kolo::optim::detail::PerParameterOptimizer, for the sources that instantiate it.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/optim/serialize.h>
#include <torch/serialize/archive.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kolo/error.h"
#include "kolo/optim/base.h"

namespace kolo::optim::detail {

// Throws InvalidArgumentError unless an option's value is right. `range` describes the allowed
// values: "0 or more".
inline void require(bool right, const char* optimizer, const char* name, double value,
                    const char* range) {
  if (right) return;
  throw InvalidArgumentError(std::string(optimizer) + ": " + name + " is " + std::to_string(value) +
                             "; it must be " + range);
}

// Requires 0 or more.
inline void require_not_negative(const char* optimizer, const char* name, double value) {
  require(value >= 0, optimizer, name, value, "0 or more");
}

// Requires a value from 0 to below 1: the part of a running average that a step keeps.
inline void require_fraction(const char* optimizer, const char* name, double value) {
  require(value >= 0 && value < 1, optimizer, name, value, "0 or more and below 1");
}

// Returns a view of a complex tensor as pairs of real numbers; of a conjugate view, a copy.
inline torch::Tensor as_real(const torch::Tensor& tensor) {
  return tensor.is_complex() ? at::view_as_real(tensor.resolve_conj()) : tensor;
}

// Returns the 2-norm, which may exceed the largest number of a half type.
inline torch::Tensor norm_of(const torch::Tensor& tensor) {
  return at::linalg_vector_norm(tensor.to(at::promote_types(tensor.scalar_type(), at::kFloat)), 2);
}

// Throws InvalidArgumentError if a gradient is sparse.
inline void refuse_sparse(const char* optimizer,
                          const std::vector<torch::optim::OptimizerParamGroup>& groups) {
  for (const auto& group : groups) {
    for (const torch::Tensor& parameter : group.params()) {
      if (!parameter.grad().defined() || parameter.grad().layout() == at::kStrided) continue;
      throw InvalidArgumentError(std::string(optimizer) +
                                 ": the gradient of a parameter is sparse; make it dense");
    }
  }
}

// Throws c10::Error unless the state's tensors have the parameter's shape.
template <class StateType>
void check_shapes(const StateType& state, const torch::Tensor& parameter) {
  StateType::visit_fields(state, [&](const char* name, const auto& field) {
    if constexpr (std::is_same_v<std::decay_t<decltype(field)>, torch::Tensor>) {
      TORCH_CHECK(!field.defined() || field.sizes() == parameter.sizes(), "the archive's '", name,
                  "' has the shape ", field.sizes(), ", its parameter ", parameter.sizes());
    }
  });
}

template <class OptionsType>
const OptionsType& options_of(const torch::optim::OptimizerParamGroup& group) {
  const auto* options = dynamic_cast<const OptionsType*>(&group.options());
  if (options == nullptr) {
    throw InvalidArgumentError(std::string(OptionsType::kOptimizer) +
                               ": a parameter group has another optimizer's options; give it " +
                               OptionsType::kOptimizer + "Options");
  }
  return *options;
}

template <class OptionsType, class StateType>
PerParameterOptimizer<OptionsType, StateType>::PerParameterOptimizer(
    const std::vector<torch::optim::OptimizerParamGroup>& param_groups, const OptionsType& defaults)
    : torch::optim::Optimizer(param_groups, std::make_unique<OptionsType>(defaults)) {
  defaults.check();
  for (std::size_t i = 0; i < param_groups.size(); ++i) keep_options(i, param_groups[i]);
}

template <class OptionsType, class StateType>
void PerParameterOptimizer<OptionsType, StateType>::add_param_group(
    const torch::optim::OptimizerParamGroup& group) {
  torch::optim::Optimizer::add_param_group(group);
  try {
    keep_options(param_groups_.size() - 1, group);
  } catch (...) {
    param_groups_.pop_back();
    throw;
  }
}

// Sets the group's own options. Since 2.15 LibTorch merges them with the defaults, and takes only
// the defaults for an optimizer that it does not know.
template <class OptionsType, class StateType>
void PerParameterOptimizer<OptionsType, StateType>::keep_options(
    std::size_t index, const torch::optim::OptimizerParamGroup& given) {
  if (given.has_options()) param_groups_[index].set_options(given.options().clone());
  options_of<OptionsType>(param_groups_[index]).check();
}

template <class OptionsType, class StateType>
StateType& PerParameterOptimizer<OptionsType, StateType>::state_of(const torch::Tensor& parameter,
                                                                   const OptionsType& options) {
  std::unique_ptr<torch::optim::OptimizerParamState>& state =
      state_[parameter.unsafeGetTensorImpl()];
  if (!state) state = std::make_unique<StateType>(parameter, options);
  return static_cast<StateType&>(*state);
}

template <class OptionsType, class StateType>
torch::Tensor PerParameterOptimizer<OptionsType, StateType>::step(LossClosure closure) {
  const at::NoGradGuard no_grad;
  torch::Tensor loss;
  if (closure) {
    const at::AutoGradMode enable_grad(true);
    loss = closure();
  }
  refuse_sparse(OptionsType::kOptimizer, param_groups_);
  for (auto& group : param_groups_) {
    const OptionsType& options = options_of<OptionsType>(group);
    for (torch::Tensor& parameter : group.params()) {
      if (!parameter.grad().defined()) continue;
      StateType& state = state_of(parameter, options);
      torch::Tensor value = as_real(parameter);
      const torch::Tensor gradient = as_real(parameter.grad());
      update(value, options.maximize() ? -gradient : gradient, state, options);
    }
  }
  return loss;
}

template <class OptionsType, class StateType>
void PerParameterOptimizer<OptionsType, StateType>::save(
    torch::serialize::OutputArchive& archive) const {
  torch::optim::serialize<StateType, OptionsType>(archive, *this);
}

template <class OptionsType, class StateType>
void PerParameterOptimizer<OptionsType, StateType>::load(torch::serialize::InputArchive& archive) {
  // LibTorch's serialize() keeps the state of parameters that have none in the archive.
  auto previous = std::exchange(state_, {});
  std::vector<std::unique_ptr<torch::optim::OptimizerOptions>> options;
  options.reserve(param_groups_.size());
  for (const auto& group : param_groups_) options.push_back(group.options().clone());
  const auto restore = [&] {
    state_ = std::move(previous);
    for (std::size_t i = 0; i < options.size(); ++i)
      param_groups_[i].set_options(std::move(options[i]));
  };
  try {
    torch::optim::serialize<StateType, OptionsType>(archive, *this);
    for (const auto& group : param_groups_) {
      options_of<OptionsType>(group).check();
      for (const torch::Tensor& parameter : group.params()) {
        const auto found = state_.find(parameter.unsafeGetTensorImpl());
        if (found != state_.end())
          check_shapes(static_cast<const StateType&>(*found->second), parameter);
      }
    }
  } catch (const std::logic_error&) {  // a key that is not a number
    restore();
    TORCH_CHECK(false, OptionsType::kOptimizer, ": the archive is damaged");
  } catch (...) {
    restore();
    throw;
  }
}

}  // namespace kolo::optim::detail
