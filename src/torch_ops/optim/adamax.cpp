#include "kolo/optim/adamax.h"

#include <cmath>

#include "torch_ops/optim/base.hpp"

namespace kolo::optim {

template class detail::PerParameterOptimizer<AdamaxOptions, AdamaxParamState>;

AdamaxOptions::AdamaxOptions(double lr) : lr_(lr) {}

void AdamaxOptions::check() const {
  detail::require_not_negative(kOptimizer, "lr", lr());
  detail::require_fraction(kOptimizer, "betas[0]", std::get<0>(betas()));
  detail::require_fraction(kOptimizer, "betas[1]", std::get<1>(betas()));
  detail::require_not_negative(kOptimizer, "eps", eps());
  detail::require_not_negative(kOptimizer, "weight_decay", weight_decay());
}

AdamaxParamState::AdamaxParamState(const torch::Tensor& parameter, const AdamaxOptions& /*options*/)
    : exp_avg_(at::zeros_like(parameter)), exp_inf_(at::zeros_like(parameter)) {}

Adamax::Adamax(const std::vector<torch::optim::OptimizerParamGroup>& param_groups,
               const AdamaxOptions& defaults)
    : PerParameterOptimizer(param_groups, defaults) {}

Adamax::Adamax(std::vector<torch::Tensor> params, const AdamaxOptions& defaults)
    : Adamax({torch::optim::OptimizerParamGroup(std::move(params))}, defaults) {}

void Adamax::update(torch::Tensor& value, const torch::Tensor& gradient, AdamaxParamState& state,
                    const AdamaxOptions& options) const {
  const auto [beta1, beta2] = options.betas();
  state.step(state.step() + 1);
  torch::Tensor exp_avg = detail::as_real(state.exp_avg());
  torch::Tensor exp_inf = detail::as_real(state.exp_inf());
  const torch::Tensor g =
      options.weight_decay() == 0 ? gradient : gradient.add(value, options.weight_decay());
  exp_avg.lerp_(g, 1 - beta1);
  exp_inf.copy_(at::maximum(exp_inf.mul_(beta2), g.abs().add_(options.eps())));
  const double correction = 1 - std::pow(beta1, static_cast<double>(state.step()));
  value.addcdiv_(exp_avg, exp_inf, -options.lr() / correction);
}

}  // namespace kolo::optim
