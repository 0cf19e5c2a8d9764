// NAdam: Adam with Nesterov momentum.
#pragma once

#include <kolo/optim/base.h>

#include <cstdint>
#include <tuple>
#include <vector>

namespace kolo::optim {

// lr 0 or more; betas in [0, 1): how much of the running averages is kept; eps 0 or more: added to
// the denominator; momentum_decay 0 or more: how the momentum grows; weight_decay 0 or more: an L2
// penalty, added to the gradient, or with decoupled_weight_decay taken from the parameter, as in
// AdamW; maximize: goes up instead of down. The defaults are Python's.
struct NAdamOptions : public detail::Options<NAdamOptions> {
  static constexpr const char* kOptimizer = "NAdam";  // for messages

  // Not explicit: LibTorch's options convert from a learning rate, and its serialisation needs it.
  NAdamOptions(double lr = 2e-3);  // NOLINT(google-explicit-constructor)
  TORCH_ARG(double, lr) = 2e-3;
  TORCH_ARG(detail::Pair, betas) = detail::Pair(0.9, 0.999);
  TORCH_ARG(double, eps) = 1e-8;
  TORCH_ARG(double, weight_decay) = 0;
  TORCH_ARG(double, momentum_decay) = 4e-3;
  TORCH_ARG(bool, decoupled_weight_decay) = false;
  TORCH_ARG(bool, maximize) = false;

 public:
  // Throws InvalidArgumentError if an option is out of range.
  void check() const;
  // Calls visit(name, field) for each field.
  template <class Self, class Visit>
  static void visit_fields(Self& self, const Visit& visit) {
    visit("lr", self.lr_);
    visit("betas", self.betas_);
    visit("eps", self.eps_);
    visit("weight_decay", self.weight_decay_);
    visit("momentum_decay", self.momentum_decay_);
    visit("decoupled_weight_decay", self.decoupled_weight_decay_);
    visit("maximize", self.maximize_);
  }
};

// The state of NAdam for one parameter.
struct NAdamParamState : public detail::ParamState<NAdamParamState> {
  NAdamParamState() = default;
  // Before the first step.
  NAdamParamState(const torch::Tensor& parameter, const NAdamOptions& options);
  TORCH_ARG(std::int64_t, step) = 0;     // steps that were taken
  TORCH_ARG(double, mu_product) = 1;     // product of the momenta so far
  TORCH_ARG(torch::Tensor, exp_avg);     // running average of gradients
  TORCH_ARG(torch::Tensor, exp_avg_sq);  // running average of squared gradients

 public:
  // Calls visit(name, field) for each field.
  template <class Self, class Visit>
  static void visit_fields(Self& self, const Visit& visit) {
    visit("step", self.step_);
    visit("mu_product", self.mu_product_);
    visit("exp_avg", self.exp_avg_);
    visit("exp_avg_sq", self.exp_avg_sq_);
  }
};

extern template class detail::PerParameterOptimizer<NAdamOptions, NAdamParamState>;

// NAdam (Dozat 2016, Incorporating Nesterov Momentum into Adam), with the weight decay that PyTorch
// adds. For a parameter x with the gradient g, in step t:
//
//   mu_t       = beta1 * (1 - 0.96^(t * momentum_decay) / 2)
//   mu_product = mu_product * mu_t
//   exp_avg    = beta1 * exp_avg + (1 - beta1) * g
//   exp_avg_sq = beta2 * exp_avg_sq + (1 - beta2) * g^2
//   denominator = sqrt(exp_avg_sq / (1 - beta2^t)) + eps
//   x -= lr * (1 - mu_t) / (1 - mu_product) * g / denominator
//   x -= lr * mu_(t+1) / (1 - mu_product * mu_(t+1)) * exp_avg / denominator
//
// LibTorch lacks it. Results agree with Python's torch.optim.NAdam up to rounding. Use it like any
// LibTorch optimizer: with schedulers, parameter groups, torch::save and torch::load,
// DistributedOptimizer and Checkpoint.
class NAdam : public detail::PerParameterOptimizer<NAdamOptions, NAdamParamState> {
 public:
  // Throws InvalidArgumentError if an option is out of range or a group's options are another
  // optimizer's. Groups without options get the defaults.
  explicit NAdam(const std::vector<torch::optim::OptimizerParamGroup>& param_groups,
                 const NAdamOptions& defaults = {});
  // One group of parameters.
  explicit NAdam(std::vector<torch::Tensor> params, const NAdamOptions& defaults = {});

 private:
  void update(torch::Tensor& value, const torch::Tensor& gradient, NAdamParamState& state,
              const NAdamOptions& options) const override;
};

}  // namespace kolo::optim
