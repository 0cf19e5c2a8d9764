// LARS: SGD whose learning rate is scaled for each layer.
#pragma once

#include <kolo/optim/base.h>

#include <cstdint>
#include <tuple>
#include <vector>

namespace kolo::optim {

// lr 0 or more; momentum 0 or more; dampening: how much of a gradient the momentum leaves out;
// weight_decay 0 or more: L2 penalty; trust_coefficient 0 or more: see LARS; eps 0 or more: added
// to the denominator of the trust; nesterov: see LARS; maximize: goes up instead of down.
struct LARSOptions : public detail::Options<LARSOptions> {
  static constexpr const char* kOptimizer = "LARS";  // for messages

  // Not explicit: LibTorch's options convert from a learning rate, and its serialisation needs it.
  LARSOptions(double lr);  // NOLINT(google-explicit-constructor)
  TORCH_ARG(double, lr);
  TORCH_ARG(double, momentum) = 0.9;
  TORCH_ARG(double, dampening) = 0;
  TORCH_ARG(double, weight_decay) = 0;
  TORCH_ARG(double, trust_coefficient) = 1e-3;
  TORCH_ARG(double, eps) = 1e-8;
  TORCH_ARG(bool, nesterov) = false;
  TORCH_ARG(bool, maximize) = false;

 public:
  // Throws InvalidArgumentError if an option is out of range.
  void check() const;
  // Calls visit(name, field) for each field.
  template <class Self, class Visit>
  static void visit_fields(Self& self, const Visit& visit) {
    visit("lr", self.lr_);
    visit("momentum", self.momentum_);
    visit("dampening", self.dampening_);
    visit("weight_decay", self.weight_decay_);
    visit("trust_coefficient", self.trust_coefficient_);
    visit("eps", self.eps_);
    visit("nesterov", self.nesterov_);
    visit("maximize", self.maximize_);
  }
};

// The state of LARS for one parameter.
struct LARSParamState : public detail::ParamState<LARSParamState> {
  LARSParamState() = default;
  // Before the first step.
  LARSParamState(const torch::Tensor& parameter, const LARSOptions& options);
  TORCH_ARG(std::int64_t, step) = 0;  // steps that were taken
  TORCH_ARG(torch::Tensor, momentum_buffer);

 public:
  // Calls visit(name, field) for each field.
  template <class Self, class Visit>
  static void visit_fields(Self& self, const Visit& visit) {
    visit("step", self.step_);
    visit("momentum_buffer", self.momentum_buffer_);
  }
};

extern template class detail::PerParameterOptimizer<LARSOptions, LARSParamState>;

// Layer-wise adaptive rate scaling, for large batches (You, Gitman and Ginsburg 2017,
// https://arxiv.org/abs/1708.03888), on PyTorch's SGD with momentum. For a parameter x with the
// gradient g, whose norms are 2-norms:
//
//   trust = trust_coefficient * |x| / (|g| + weight_decay * |x| + eps), 1 if |x| or |g| is 0
//   g = trust * (g + weight_decay * x)
//   momentum_buffer = momentum * momentum_buffer + (1 - dampening) * g   (g in the first step)
//   x -= lr * momentum_buffer, with nesterov lr * (g + momentum * momentum_buffer)
//
// Give biases and the parameters of normalisation layers a group with trust_coefficient 0, which
// makes trust 1. Every rank must have the whole parameter.
class LARS : public detail::PerParameterOptimizer<LARSOptions, LARSParamState> {
 public:
  // Throws InvalidArgumentError if an option is out of range or a group's options are another
  // optimizer's. Groups without options get the defaults.
  explicit LARS(const std::vector<torch::optim::OptimizerParamGroup>& param_groups,
                const LARSOptions& defaults);
  // One group of parameters.
  explicit LARS(std::vector<torch::Tensor> params, const LARSOptions& defaults);

 private:
  void update(torch::Tensor& value, const torch::Tensor& gradient, LARSParamState& state,
              const LARSOptions& options) const override;
};

}  // namespace kolo::optim
