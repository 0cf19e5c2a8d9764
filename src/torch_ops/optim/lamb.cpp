#include "kolo/optim/lamb.h"

#include <cmath>

#include "torch_ops/optim/base.hpp"

namespace kolo::optim {

template class detail::PerParameterOptimizer<LAMBOptions, LAMBParamState>;

LAMBOptions::LAMBOptions(double lr) : lr_(lr) {}

void LAMBOptions::check() const {
  detail::require_not_negative(kOptimizer, "lr", lr());
  detail::require_fraction(kOptimizer, "betas[0]", std::get<0>(betas()));
  detail::require_fraction(kOptimizer, "betas[1]", std::get<1>(betas()));
  detail::require_not_negative(kOptimizer, "eps", eps());
  detail::require_not_negative(kOptimizer, "weight_decay", weight_decay());
}

LAMBParamState::LAMBParamState(const torch::Tensor& parameter, const LAMBOptions& /*options*/)
    : exp_avg_(at::zeros_like(parameter)), exp_avg_sq_(at::zeros_like(parameter)) {}

LAMB::LAMB(const std::vector<torch::optim::OptimizerParamGroup>& param_groups,
           const LAMBOptions& defaults)
    : PerParameterOptimizer(param_groups, defaults) {}

LAMB::LAMB(std::vector<torch::Tensor> params, const LAMBOptions& defaults)
    : LAMB({torch::optim::OptimizerParamGroup(std::move(params))}, defaults) {}

void LAMB::update(torch::Tensor& value, const torch::Tensor& gradient, LAMBParamState& state,
                  const LAMBOptions& options) const {
  const auto [beta1, beta2] = options.betas();
  state.step(state.step() + 1);
  const auto step = static_cast<double>(state.step());
  const torch::Tensor& g = gradient;
  torch::Tensor exp_avg = detail::as_real(state.exp_avg());
  torch::Tensor exp_avg_sq = detail::as_real(state.exp_avg_sq());
  exp_avg.lerp_(g, 1 - beta1);
  exp_avg_sq.mul_(beta2).addcmul_(g, g, 1 - beta2);
  torch::Tensor r = exp_avg.div(1 - std::pow(beta1, step));
  r.div_(exp_avg_sq.div(1 - std::pow(beta2, step)).sqrt_().add_(options.eps()));
  r.add_(value, options.weight_decay());
  const torch::Tensor of_value = detail::norm_of(value);
  const torch::Tensor of_update = detail::norm_of(r);
  const torch::Tensor trust = at::where(of_value.ne(0).logical_and_(of_update.ne(0)),
                                        of_value / of_update, at::ones_like(of_value));
  value.sub_(r.mul_(trust).mul_(options.lr()));
}

}  // namespace kolo::optim
