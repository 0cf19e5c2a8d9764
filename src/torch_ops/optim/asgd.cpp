#include "kolo/optim/asgd.h"

#include <algorithm>
#include <cmath>

#include "torch_ops/optim/base.hpp"

namespace kolo::optim {

template class detail::PerParameterOptimizer<ASGDOptions, ASGDParamState>;

ASGDOptions::ASGDOptions(double lr) : lr_(lr) {}

void ASGDOptions::check() const {
  detail::require_not_negative(kOptimizer, "lr", lr());
  detail::require_not_negative(kOptimizer, "weight_decay", weight_decay());
}

ASGDParamState::ASGDParamState(const torch::Tensor& parameter, const ASGDOptions& options)
    : eta_(options.lr()), ax_(at::zeros_like(parameter)) {}

ASGD::ASGD(const std::vector<torch::optim::OptimizerParamGroup>& param_groups,
           const ASGDOptions& defaults)
    : PerParameterOptimizer(param_groups, defaults) {}

ASGD::ASGD(std::vector<torch::Tensor> params, const ASGDOptions& defaults)
    : ASGD({torch::optim::OptimizerParamGroup(std::move(params))}, defaults) {}

void ASGD::update(torch::Tensor& value, const torch::Tensor& gradient, ASGDParamState& state,
                  const ASGDOptions& options) const {
  state.step(state.step() + 1);
  const auto step = static_cast<double>(state.step());
  torch::Tensor ax = detail::as_real(state.ax());
  const torch::Tensor g =
      options.weight_decay() == 0 ? gradient : gradient.add(value, options.weight_decay());
  value.mul_(1 - options.lambd() * state.eta()).add_(g, -state.eta());
  if (state.mu() == 1) {
    ax.copy_(value);
  } else {
    ax.add_(value.sub(ax).mul_(state.mu()));
  }
  state.eta(options.lr() / std::pow(1 + options.lambd() * options.lr() * step, options.alpha()));
  state.mu(1 / std::max(1.0, step - options.t0()));
}

}  // namespace kolo::optim
