#include "kolo/optim/nadam.h"

#include <cmath>

#include "torch_ops/optim/base.hpp"

namespace kolo::optim {

template class detail::PerParameterOptimizer<NAdamOptions, NAdamParamState>;

NAdamOptions::NAdamOptions(double lr) : lr_(lr) {}

void NAdamOptions::check() const {
  detail::require_not_negative(kOptimizer, "lr", lr());
  detail::require_fraction(kOptimizer, "betas[0]", std::get<0>(betas()));
  detail::require_fraction(kOptimizer, "betas[1]", std::get<1>(betas()));
  detail::require_not_negative(kOptimizer, "eps", eps());
  detail::require_not_negative(kOptimizer, "momentum_decay", momentum_decay());
  detail::require_not_negative(kOptimizer, "weight_decay", weight_decay());
}

NAdamParamState::NAdamParamState(const torch::Tensor& parameter, const NAdamOptions& /*options*/)
    : exp_avg_(at::zeros_like(parameter)), exp_avg_sq_(at::zeros_like(parameter)) {}

NAdam::NAdam(const std::vector<torch::optim::OptimizerParamGroup>& param_groups,
             const NAdamOptions& defaults)
    : PerParameterOptimizer(param_groups, defaults) {}

NAdam::NAdam(std::vector<torch::Tensor> params, const NAdamOptions& defaults)
    : NAdam({torch::optim::OptimizerParamGroup(std::move(params))}, defaults) {}

void NAdam::update(torch::Tensor& value, const torch::Tensor& gradient, NAdamParamState& state,
                   const NAdamOptions& options) const {
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
  const auto momentum = [&, beta = beta1](double t) {
    return beta * (1 - 0.5 * std::pow(0.96, t * options.momentum_decay()));
  };
  const double mu = momentum(step);
  const double next_mu = momentum(step + 1);
  state.mu_product(state.mu_product() * mu);
  exp_avg.lerp_(g, 1 - beta1);
  exp_avg_sq.mul_(beta2).addcmul_(g, g, 1 - beta2);
  const torch::Tensor denominator =
      exp_avg_sq.div(1 - std::pow(beta2, step)).sqrt_().add_(options.eps());
  value.addcdiv_(g, denominator, -options.lr() * (1 - mu) / (1 - state.mu_product()));
  value.addcdiv_(exp_avg, denominator,
                 -options.lr() * next_mu / (1 - state.mu_product() * next_mu));
}

}  // namespace kolo::optim
