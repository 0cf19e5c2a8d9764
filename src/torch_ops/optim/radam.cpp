#include "kolo/optim/radam.h"

#include <cmath>

#include "torch_ops/optim/base.hpp"

namespace kolo::optim {

template class detail::PerParameterOptimizer<RAdamOptions, RAdamParamState>;

RAdamOptions::RAdamOptions(double lr) : lr_(lr) {}

void RAdamOptions::check() const {
  detail::require_not_negative(kOptimizer, "lr", lr());
  detail::require_fraction(kOptimizer, "betas[0]", std::get<0>(betas()));
  detail::require_fraction(kOptimizer, "betas[1]", std::get<1>(betas()));
  detail::require_not_negative(kOptimizer, "eps", eps());
  detail::require_not_negative(kOptimizer, "weight_decay", weight_decay());
}

RAdamParamState::RAdamParamState(const torch::Tensor& parameter, const RAdamOptions& /*options*/)
    : exp_avg_(at::zeros_like(parameter)), exp_avg_sq_(at::zeros_like(parameter)) {}

RAdam::RAdam(const std::vector<torch::optim::OptimizerParamGroup>& param_groups,
             const RAdamOptions& defaults)
    : PerParameterOptimizer(param_groups, defaults) {}

RAdam::RAdam(std::vector<torch::Tensor> params, const RAdamOptions& defaults)
    : RAdam({torch::optim::OptimizerParamGroup(std::move(params))}, defaults) {}

void RAdam::update(torch::Tensor& value, const torch::Tensor& gradient, RAdamParamState& state,
                   const RAdamOptions& options) const {
  const auto [beta1, beta2] = options.betas();
  state.step(state.step() + 1);
  const auto step = static_cast<double>(state.step());
  torch::Tensor exp_avg = detail::as_real(state.exp_avg());
  torch::Tensor exp_avg_sq = detail::as_real(state.exp_avg_sq());
  torch::Tensor g = gradient;
  if (options.weight_decay() != 0 && options.decoupled_weight_decay()) {
    value.mul_(1 - options.lr() * options.weight_decay());
  } else if (options.weight_decay() != 0) {
    g = gradient.add(value, options.weight_decay());
  }
  exp_avg.lerp_(g, 1 - beta1);
  exp_avg_sq.mul_(beta2).addcmul_(g, g, 1 - beta2);
  const double correction2 = 1 - std::pow(beta2, step);
  torch::Tensor change = exp_avg.div(1 - std::pow(beta1, step)).mul_(options.lr());
  const double rho_inf = 2 / (1 - beta2) - 1;
  const double rho = rho_inf - 2 * step * std::pow(beta2, step) / correction2;
  if (rho > 5) {
    const double rectification =
        std::sqrt((rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho));
    change.div_(exp_avg_sq.sqrt().add_(options.eps())).mul_(std::sqrt(correction2) * rectification);
  }
  value.sub_(change);
}

}  // namespace kolo::optim
