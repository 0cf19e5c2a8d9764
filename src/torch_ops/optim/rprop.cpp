#include "kolo/optim/rprop.h"

#include "torch_ops/optim/base.hpp"

namespace kolo::optim {
namespace {

// Returns the initial step sizes, one for each part of a complex number.
torch::Tensor first_sizes(const torch::Tensor& parameter, double size) {
  if (!parameter.is_complex()) return at::full_like(parameter, size);
  return at::view_as_complex(at::full_like(at::view_as_real(parameter), size));
}

}  // namespace

template class detail::PerParameterOptimizer<RpropOptions, RpropParamState>;

RpropOptions::RpropOptions(double lr) : lr_(lr) {}

void RpropOptions::check() const {
  detail::require_not_negative(kOptimizer, "lr", lr());
  const auto [shrink, grow] = etas();
  detail::require(shrink > 0 && shrink < 1, kOptimizer, "etas[0]", shrink, "between 0 and 1");
  detail::require(grow > 1, kOptimizer, "etas[1]", grow, "above 1");
}

RpropParamState::RpropParamState(const torch::Tensor& parameter, const RpropOptions& options)
    : prev_(at::zeros_like(parameter)), step_size_(first_sizes(parameter, options.lr())) {}

Rprop::Rprop(const std::vector<torch::optim::OptimizerParamGroup>& param_groups,
             const RpropOptions& defaults)
    : PerParameterOptimizer(param_groups, defaults) {}

Rprop::Rprop(std::vector<torch::Tensor> params, const RpropOptions& defaults)
    : Rprop({torch::optim::OptimizerParamGroup(std::move(params))}, defaults) {}

void Rprop::update(torch::Tensor& value, const torch::Tensor& gradient, RpropParamState& state,
                   const RpropOptions& options) const {
  const auto [shrink, grow] = options.etas();
  state.step(state.step() + 1);
  torch::Tensor prev = detail::as_real(state.prev());
  torch::Tensor step_size = detail::as_real(state.step_size());
  const torch::Tensor sign = gradient.mul(prev).sign_();
  const torch::Tensor changed = sign.lt(0);
  const torch::Tensor factor = at::ones_like(sign).masked_fill_(sign.gt(0), grow);
  step_size.mul_(factor.masked_fill_(changed, shrink));
  step_size.clamp_(std::get<0>(options.step_sizes()), std::get<1>(options.step_sizes()));
  const torch::Tensor g = gradient.masked_fill(changed, 0);
  value.addcmul_(g.sign(), step_size, -1);
  prev.copy_(g);
}

}  // namespace kolo::optim
