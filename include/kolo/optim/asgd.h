// ASGD: stochastic gradient descent that also averages the parameters.
#pragma once

#include <kolo/optim/base.h>

#include <cstdint>
#include <tuple>
#include <vector>

namespace kolo::optim {

// lr 0 or more; lambd: decay of the values; alpha: how the learning rate falls; t0: the step after
// which values are averaged; weight_decay 0 or more: L2 penalty, added to the gradient; maximize:
// goes up instead of down. The defaults are Python's.
struct ASGDOptions : public detail::Options<ASGDOptions> {
  static constexpr const char* kOptimizer = "ASGD";  // for messages

  // Not explicit: LibTorch's options convert from a learning rate, and its serialisation needs it.
  ASGDOptions(double lr = 1e-2);  // NOLINT(google-explicit-constructor)
  TORCH_ARG(double, lr) = 1e-2;
  TORCH_ARG(double, lambd) = 1e-4;
  TORCH_ARG(double, alpha) = 0.75;
  TORCH_ARG(double, t0) = 1e6;
  TORCH_ARG(double, weight_decay) = 0;
  TORCH_ARG(bool, maximize) = false;

 public:
  // Throws InvalidArgumentError if an option is out of range.
  void check() const;
  // Calls visit(name, field) for each field.
  template <class Self, class Visit>
  static void visit_fields(Self& self, const Visit& visit) {
    visit("lr", self.lr_);
    visit("lambd", self.lambd_);
    visit("alpha", self.alpha_);
    visit("t0", self.t0_);
    visit("weight_decay", self.weight_decay_);
    visit("maximize", self.maximize_);
  }
};

// The state of ASGD for one parameter.
struct ASGDParamState : public detail::ParamState<ASGDParamState> {
  ASGDParamState() = default;
  // Before the first step.
  ASGDParamState(const torch::Tensor& parameter, const ASGDOptions& options);
  TORCH_ARG(std::int64_t, step) = 0;  // steps that were taken
  TORCH_ARG(double, eta) = 0;         // the next step's learning rate
  TORCH_ARG(double, mu) = 1;          // how much of the next values the average takes
  TORCH_ARG(torch::Tensor, ax);       // the average of the values

 public:
  // Calls visit(name, field) for each field.
  template <class Self, class Visit>
  static void visit_fields(Self& self, const Visit& visit) {
    visit("step", self.step_);
    visit("eta", self.eta_);
    visit("mu", self.mu_);
    visit("ax", self.ax_);
  }
};

extern template class detail::PerParameterOptimizer<ASGDOptions, ASGDParamState>;

// Averaged stochastic gradient descent (Polyak and Juditsky 1992, Acceleration of Stochastic
// Approximation by Averaging; Bottou's variant). For a parameter x with the gradient g, in step t:
//
//   g += weight_decay * x
//   x = (1 - lambd * eta) * x - eta * g
//   ax += mu * (x - ax)                      the average, x itself in the first steps
//   eta = lr / (1 + lambd * lr * t)^alpha,  mu = 1 / max(1, t - t0)
//
// The average is in the state, ax(); the program copies it to where it is needed.
class ASGD : public detail::PerParameterOptimizer<ASGDOptions, ASGDParamState> {
 public:
  // Throws InvalidArgumentError if an option is out of range or a group's options are another
  // optimizer's. Groups without options get the defaults.
  explicit ASGD(const std::vector<torch::optim::OptimizerParamGroup>& param_groups,
                const ASGDOptions& defaults = {});
  // One group of parameters.
  explicit ASGD(std::vector<torch::Tensor> params, const ASGDOptions& defaults = {});

 private:
  void update(torch::Tensor& value, const torch::Tensor& gradient, ASGDParamState& state,
              const ASGDOptions& options) const override;
};

}  // namespace kolo::optim
