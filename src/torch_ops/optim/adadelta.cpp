#include "kolo/optim/adadelta.h"

#include "torch_ops/optim/base.hpp"

namespace kolo::optim {

template class detail::PerParameterOptimizer<AdadeltaOptions, AdadeltaParamState>;

AdadeltaOptions::AdadeltaOptions(double lr) : lr_(lr) {}

void AdadeltaOptions::check() const {
  detail::require_not_negative(kOptimizer, "lr", lr());
  detail::require(rho() >= 0 && rho() <= 1, kOptimizer, "rho", rho(), "between 0 and 1");
  detail::require_not_negative(kOptimizer, "eps", eps());
  detail::require_not_negative(kOptimizer, "weight_decay", weight_decay());
}

AdadeltaParamState::AdadeltaParamState(const torch::Tensor& parameter,
                                       const AdadeltaOptions& /*options*/)
    : square_avg_(at::zeros_like(parameter)), acc_delta_(at::zeros_like(parameter)) {}

Adadelta::Adadelta(const std::vector<torch::optim::OptimizerParamGroup>& param_groups,
                   const AdadeltaOptions& defaults)
    : PerParameterOptimizer(param_groups, defaults) {}

Adadelta::Adadelta(std::vector<torch::Tensor> params, const AdadeltaOptions& defaults)
    : Adadelta({torch::optim::OptimizerParamGroup(std::move(params))}, defaults) {}

void Adadelta::update(torch::Tensor& value, const torch::Tensor& gradient,
                      AdadeltaParamState& state, const AdadeltaOptions& options) const {
  const double rho = options.rho();
  state.step(state.step() + 1);
  torch::Tensor square_avg = detail::as_real(state.square_avg());
  torch::Tensor acc_delta = detail::as_real(state.acc_delta());
  const torch::Tensor g =
      options.weight_decay() == 0 ? gradient : gradient.add(value, options.weight_decay());
  square_avg.mul_(rho).addcmul_(g, g, 1 - rho);
  torch::Tensor delta = acc_delta.add(options.eps()).sqrt_();
  delta.div_(square_avg.add(options.eps()).sqrt_()).mul_(g);
  acc_delta.mul_(rho).addcmul_(delta, delta, 1 - rho);
  value.add_(delta, -options.lr());
}

}  // namespace kolo::optim
