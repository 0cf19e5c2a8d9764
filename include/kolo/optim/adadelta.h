// Adadelta: an optimizer that adapts its learning rate.
#pragma once

#include <kolo/optim/base.h>

#include <cstdint>
#include <tuple>
#include <vector>

namespace kolo::optim {

// lr 0 or more: scales each update; rho in [0, 1]: how much of the running averages is kept; eps 0
// or more: added to both averages before their roots are taken; weight_decay 0 or more: L2 penalty,
// added to the gradient; maximize: goes up instead of down. The defaults are Python's.
struct AdadeltaOptions : public detail::Options<AdadeltaOptions> {
  static constexpr const char* kOptimizer = "Adadelta";  // for messages

  // Not explicit: LibTorch's options convert from a learning rate, and its serialisation needs it.
  AdadeltaOptions(double lr = 1.0);  // NOLINT(google-explicit-constructor)
  TORCH_ARG(double, lr) = 1.0;
  TORCH_ARG(double, rho) = 0.9;
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
    visit("rho", self.rho_);
    visit("eps", self.eps_);
    visit("weight_decay", self.weight_decay_);
    visit("maximize", self.maximize_);
  }
};

// The state of Adadelta for one parameter.
struct AdadeltaParamState : public detail::ParamState<AdadeltaParamState> {
  AdadeltaParamState() = default;
  // Before the first step.
  AdadeltaParamState(const torch::Tensor& parameter, const AdadeltaOptions& options);
  TORCH_ARG(std::int64_t, step) = 0;     // steps that were taken
  TORCH_ARG(torch::Tensor, square_avg);  // running average of squared gradients
  TORCH_ARG(torch::Tensor, acc_delta);   // running average of squared updates

 public:
  // Calls visit(name, field) for each field.
  template <class Self, class Visit>
  static void visit_fields(Self& self, const Visit& visit) {
    visit("step", self.step_);
    visit("square_avg", self.square_avg_);
    visit("acc_delta", self.acc_delta_);
  }
};

extern template class detail::PerParameterOptimizer<AdadeltaOptions, AdadeltaParamState>;

// ADADELTA (Zeiler 2012, https://arxiv.org/abs/1212.5701, algorithm 1), with the learning rate and
// the weight decay that PyTorch adds. For a parameter x with the gradient g:
//
//   g += weight_decay * x
//   square_avg = rho * square_avg + (1 - rho) * g^2
//   delta      = sqrt(acc_delta + eps) / sqrt(square_avg + eps) * g
//   acc_delta  = rho * acc_delta + (1 - rho) * delta^2
//   x -= lr * delta
//
// LibTorch lacks it. Results agree with Python's torch.optim.Adadelta up to rounding. Use it like
// any LibTorch optimizer: with schedulers, parameter groups, torch::save and torch::load,
// DistributedOptimizer and Checkpoint.
// LibTorch's StepLR differs from Python's: its first step() changes nothing, where Python's
// constructor makes that step. Call step() once after making it to get Python's learning rates.
class Adadelta : public detail::PerParameterOptimizer<AdadeltaOptions, AdadeltaParamState> {
 public:
  // Throws InvalidArgumentError if an option is out of range or a group's options are another
  // optimizer's. Groups without options get the defaults.
  explicit Adadelta(const std::vector<torch::optim::OptimizerParamGroup>& param_groups,
                    const AdadeltaOptions& defaults = {});
  // One group of parameters.
  explicit Adadelta(std::vector<torch::Tensor> params, const AdadeltaOptions& defaults = {});

 private:
  void update(torch::Tensor& value, const torch::Tensor& gradient, AdadeltaParamState& state,
              const AdadeltaOptions& options) const override;
};

}  // namespace kolo::optim
