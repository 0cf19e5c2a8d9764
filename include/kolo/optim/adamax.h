// Adamax: Adam with the infinity norm.
#pragma once

#include <kolo/optim/base.h>

#include <cstdint>
#include <tuple>
#include <vector>

namespace kolo::optim {

// lr 0 or more; betas in [0, 1): how much of the average and of the maximum is kept; eps 0 or more:
// added to the absolute gradient; weight_decay 0 or more: L2 penalty, added to the gradient;
// maximize: goes up instead of down. The defaults are Python's.
struct AdamaxOptions : public detail::Options<AdamaxOptions> {
  static constexpr const char* kOptimizer = "Adamax";  // for messages

  // Not explicit: LibTorch's options convert from a learning rate, and its serialisation needs it.
  AdamaxOptions(double lr = 2e-3);  // NOLINT(google-explicit-constructor)
  TORCH_ARG(double, lr) = 2e-3;
  TORCH_ARG(detail::Pair, betas) = detail::Pair(0.9, 0.999);
  TORCH_ARG(double, eps) = 1e-8;
  TORCH_ARG(double, weight_decay) = 0;
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
    visit("maximize", self.maximize_);
  }
};

// The state of Adamax for one parameter.
struct AdamaxParamState : public detail::ParamState<AdamaxParamState> {
  AdamaxParamState() = default;
  // Before the first step.
  AdamaxParamState(const torch::Tensor& parameter, const AdamaxOptions& options);
  TORCH_ARG(std::int64_t, step) = 0;  // steps that were taken
  TORCH_ARG(torch::Tensor, exp_avg);  // running average of gradients
  TORCH_ARG(torch::Tensor, exp_inf);  // decaying maximum of absolute gradients

 public:
  // Calls visit(name, field) for each field.
  template <class Self, class Visit>
  static void visit_fields(Self& self, const Visit& visit) {
    visit("step", self.step_);
    visit("exp_avg", self.exp_avg_);
    visit("exp_inf", self.exp_inf_);
  }
};

extern template class detail::PerParameterOptimizer<AdamaxOptions, AdamaxParamState>;

// Adamax (Kingma and Ba 2015, https://arxiv.org/abs/1412.6980, algorithm 2), with the weight decay
// that PyTorch adds. For a parameter x with the gradient g, in step t:
//
//   g += weight_decay * x
//   exp_avg = beta1 * exp_avg + (1 - beta1) * g
//   exp_inf = max(beta2 * exp_inf, |g| + eps)
//   x -= lr / (1 - beta1^t) * exp_avg / exp_inf
//
// LibTorch lacks it. Results agree with Python's torch.optim.Adamax up to rounding. Use it like any
// LibTorch optimizer: with schedulers, parameter groups, torch::save and torch::load,
// DistributedOptimizer and Checkpoint.
class Adamax : public detail::PerParameterOptimizer<AdamaxOptions, AdamaxParamState> {
 public:
  // Throws InvalidArgumentError if an option is out of range or a group's options are another
  // optimizer's. Groups without options get the defaults.
  explicit Adamax(const std::vector<torch::optim::OptimizerParamGroup>& param_groups,
                  const AdamaxOptions& defaults = {});
  // One group of parameters.
  explicit Adamax(std::vector<torch::Tensor> params, const AdamaxOptions& defaults = {});

 private:
  void update(torch::Tensor& value, const torch::Tensor& gradient, AdamaxParamState& state,
              const AdamaxOptions& options) const override;
};

}  // namespace kolo::optim
