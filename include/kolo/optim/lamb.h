// LAMB: Adam whose learning rate is scaled for each layer.
#pragma once

#include <kolo/optim/base.h>

#include <cstdint>
#include <tuple>
#include <vector>

namespace kolo::optim {

// lr 0 or more; betas in [0, 1): how much of the running averages is kept; eps 0 or more: added to
// the denominator; weight_decay 0 or more: added to the update; maximize: goes up instead of down.
struct LAMBOptions : public detail::Options<LAMBOptions> {
  static constexpr const char* kOptimizer = "LAMB";  // for messages

  // Not explicit: LibTorch's options convert from a learning rate, and its serialisation needs it.
  LAMBOptions(double lr = 1e-3);  // NOLINT(google-explicit-constructor)
  TORCH_ARG(double, lr) = 1e-3;
  TORCH_ARG(detail::Pair, betas) = detail::Pair(0.9, 0.999);
  TORCH_ARG(double, eps) = 1e-6;
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

// The state of LAMB for one parameter.
struct LAMBParamState : public detail::ParamState<LAMBParamState> {
  LAMBParamState() = default;
  // Before the first step.
  LAMBParamState(const torch::Tensor& parameter, const LAMBOptions& options);
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

extern template class detail::PerParameterOptimizer<LAMBOptions, LAMBParamState>;

// Layer-wise adaptive moments for large batches (You and others 2020,
// https://arxiv.org/abs/1904.00962, algorithm 2, with bias correction). For a parameter x with the
// gradient g, in step t, norms are 2-norms:
//
//   exp_avg    = beta1 * exp_avg + (1 - beta1) * g
//   exp_avg_sq = beta2 * exp_avg_sq + (1 - beta2) * g^2
//   r = exp_avg / (1 - beta1^t) / (sqrt(exp_avg_sq / (1 - beta2^t)) + eps) + weight_decay * x
//   x -= lr * |x| / |r| * r, without |x| / |r| if either is 0
//
// Every rank must have the whole parameter.
class LAMB : public detail::PerParameterOptimizer<LAMBOptions, LAMBParamState> {
 public:
  // Throws InvalidArgumentError if an option is out of range or a group's options are another
  // optimizer's. Groups without options get the defaults.
  explicit LAMB(const std::vector<torch::optim::OptimizerParamGroup>& param_groups,
                const LAMBOptions& defaults = {});
  // One group of parameters.
  explicit LAMB(std::vector<torch::Tensor> params, const LAMBOptions& defaults = {});

 private:
  void update(torch::Tensor& value, const torch::Tensor& gradient, LAMBParamState& state,
              const LAMBOptions& options) const override;
};

}  // namespace kolo::optim
