#include "kolo/optim/lars.h"

#include "torch_ops/optim/base.hpp"

namespace kolo::optim {

template class detail::PerParameterOptimizer<LARSOptions, LARSParamState>;

LARSOptions::LARSOptions(double lr) : lr_(lr) {}

void LARSOptions::check() const {
  detail::require_not_negative(kOptimizer, "lr", lr());
  detail::require_not_negative(kOptimizer, "momentum", momentum());
  detail::require_not_negative(kOptimizer, "trust_coefficient", trust_coefficient());
  detail::require_not_negative(kOptimizer, "eps", eps());
  detail::require_not_negative(kOptimizer, "weight_decay", weight_decay());
  detail::require(!nesterov() || momentum() > 0, kOptimizer, "momentum", momentum(),
                  "above 0 for nesterov");
  detail::require(!nesterov() || dampening() == 0, kOptimizer, "dampening", dampening(),
                  "0 for nesterov");
}

LARSParamState::LARSParamState(const torch::Tensor& /*parameter*/, const LARSOptions& /*options*/) {
}

LARS::LARS(const std::vector<torch::optim::OptimizerParamGroup>& param_groups,
           const LARSOptions& defaults)
    : PerParameterOptimizer(param_groups, defaults) {}

LARS::LARS(std::vector<torch::Tensor> params, const LARSOptions& defaults)
    : LARS({torch::optim::OptimizerParamGroup(std::move(params))}, defaults) {}

void LARS::update(torch::Tensor& value, const torch::Tensor& gradient, LARSParamState& state,
                  const LARSOptions& options) const {
  state.step(state.step() + 1);
  torch::Tensor g = gradient.add(value, options.weight_decay());
  if (options.trust_coefficient() != 0) {
    const torch::Tensor of_value = detail::norm_of(value);
    const torch::Tensor of_gradient = detail::norm_of(gradient);
    const torch::Tensor trust = of_value * options.trust_coefficient() /
                                (of_gradient + of_value * options.weight_decay() + options.eps());
    g.mul_(at::where(of_value.ne(0).logical_and_(of_gradient.ne(0)), trust, at::ones_like(trust)));
  }
  if (options.momentum() != 0) {
    torch::Tensor buffer = state.momentum_buffer();
    if (buffer.defined()) {
      buffer.mul_(options.momentum()).add_(g, 1 - options.dampening());
    } else {
      buffer = g.clone();
      state.momentum_buffer(buffer);
    }
    g = options.nesterov() ? g.add(buffer, options.momentum()) : buffer;
  }
  value.add_(g, -options.lr());
}

}  // namespace kolo::optim
