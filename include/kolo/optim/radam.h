// RAdam: Adam whose first steps have a rectified variance.
#pragma once

#include <kolo/optim/base.h>

#include <cstdint>
#include <tuple>
#include <vector>

namespace kolo::optim {

// lr 0 or more; betas in [0, 1): how much of the running averages is kept; eps 0 or more: added to
// the denominator; weight_decay 0 or more: an L2 penalty, added to
// the gradient, or with decoupled_weight_decay taken from the parameter, as in AdamW; maximize:
// goes up instead of down. The defaults are Python's.
struct RAdamOptions : public detail::Options<RAdamOptions> {
  static constexpr const char* kOptimizer = "RAdam";  // for messages

  // Not explicit: LibTorch's options convert from a learning rate, and its serialisation needs it.
  RAdamOptions(double lr = 1e-3);  // NOLINT(google-explicit-constructor)
  TORCH_ARG(double, lr) = 1e-3;
  TORCH_ARG(detail::Pair, betas) = detail::Pair(0.9, 0.999);
  TORCH_ARG(double, eps) = 1e-8;
  TORCH_ARG(double, weight_decay) = 0;
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
    visit("decoupled_weight_decay", self.decoupled_weight_decay_);
    visit("maximize", self.maximize_);
  }
};

// The state of RAdam for one parameter.
struct RAdamParamState : public detail::ParamState<RAdamParamState> {
  RAdamParamState() = default;
  // Before the first step.
  RAdamParamState(const torch::Tensor& parameter, const RAdamOptions& options);
  TORCH_ARG(std::int64_t, step) = 0;     // steps that were taken
  TORCH_ARG(torch::Tensor, exp_avg);     // running average of gradients
  TORCH_ARG(torch::Tensor, exp_avg_sq);  // running average of squared gradients

 public:
  // Calls visit(name, field) for each field.
  template <class Self, class Visit>
  static void visit_fields(Self& self, const Visit& visit) {
    visit("step", self.step_);
    visit("exp_avg", self.exp_avg_);
    visit("exp_avg_sq", self.exp_avg_sq_);
  }
};

extern template class detail::PerParameterOptimizer<RAdamOptions, RAdamParamState>;

// RAdam (Liu and others 2020, https://arxiv.org/abs/1908.03265, algorithm 2), with the weight decay
// that PyTorch adds. For a parameter x with the gradient g, in step t:
//
//   exp_avg    = beta1 * exp_avg + (1 - beta1) * g
//   exp_avg_sq = beta2 * exp_avg_sq + (1 - beta2) * g^2
//   rho_inf = 2 / (1 - beta2) - 1,  rho = rho_inf - 2 t beta2^t / (1 - beta2^t)
//   x -= lr / (1 - beta1^t) * exp_avg * factor, where factor is 1 up to rho = 5, and beyond
//     sqrt((rho - 4) (rho - 2) rho_inf / ((rho_inf - 4) (rho_inf - 2) rho))
//       * sqrt(1 - beta2^t) / (sqrt(exp_avg_sq) + eps)
//
// LibTorch lacks it. Results agree with Python's torch.optim.RAdam up to rounding. Use it like any
// LibTorch optimizer: with schedulers, parameter groups, torch::save and torch::load,
// DistributedOptimizer and Checkpoint.
class RAdam : public detail::PerParameterOptimizer<RAdamOptions, RAdamParamState> {
 public:
  // Throws InvalidArgumentError if an option is out of range or a group's options are another
  // optimizer's. Groups without options get the defaults.
  explicit RAdam(const std::vector<torch::optim::OptimizerParamGroup>& param_groups,
                 const RAdamOptions& defaults = {});
  // One group of parameters.
  explicit RAdam(std::vector<torch::Tensor> params, const RAdamOptions& defaults = {});

 private:
  void update(torch::Tensor& value, const torch::Tensor& gradient, RAdamParamState& state,
              const RAdamOptions& options) const override;
};

}  // namespace kolo::optim
