// Adadelta, which LibTorch has in Python but not in C++.
#pragma once

#include <torch/arg.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <vector>

namespace kolo::optim {

// lr 0 or more: scales each update; rho in [0, 1]: how much of the running averages is kept; eps 0
// or more: added to both averages before their roots are taken; weight_decay 0 or more: L2 penalty,
// added to the gradient. The defaults are Python's.
struct AdadeltaOptions : public torch::optim::OptimizerCloneableOptions<AdadeltaOptions> {
  // Not explicit: LibTorch's options convert from a learning rate, and its serialisation needs it.
  AdadeltaOptions(double lr = 1.0);  // NOLINT(google-explicit-constructor)
  TORCH_ARG(double, lr) = 1.0;
  TORCH_ARG(double, rho) = 0.9;
  TORCH_ARG(double, eps) = 1e-6;
  TORCH_ARG(double, weight_decay) = 0;

 public:
  // As LibTorch's optimizers have them.
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
  double get_lr() const override;
  void set_lr(double lr) override;
  friend bool operator==(const AdadeltaOptions& left, const AdadeltaOptions& right);
};

// What Adadelta keeps for each parameter.
struct AdadeltaParamState : public torch::optim::OptimizerCloneableParamState<AdadeltaParamState> {
  // How many steps were taken.
  TORCH_ARG(std::int64_t, step) = 0;
  TORCH_ARG(torch::Tensor, square_avg);  // running average of squared gradients, shaped as they are
  TORCH_ARG(torch::Tensor, acc_delta);   // running average of squared updates

 public:
  // As LibTorch's optimizers have them.
  void serialize(torch::serialize::InputArchive& archive) override;
  void serialize(torch::serialize::OutputArchive& archive) const override;
};

// ADADELTA (Zeiler 2012, https://arxiv.org/abs/1212.5701, algorithm 1), with the learning rate and
// the weight decay that PyTorch adds; the operations and their order are those of Python's
// torch.optim.Adadelta, and so are the results. For parameter x with gradient g:
//
//   g += weight_decay * x
//   square_avg = rho * square_avg + (1 - rho) * g^2
//   delta      = sqrt(acc_delta + eps) / sqrt(square_avg + eps) * g
//   acc_delta  = rho * acc_delta + (1 - rho) * delta^2
//   x -= lr * delta
//
// Use it as any LibTorch optimizer: with schedulers, parameter groups, torch::save and torch::load
// (a run continued from a saved state gives the same bits). Beware of LibTorch's StepLR: its first
// step() changes nothing, where Python's constructor makes that step; call step() once after making
// it to get Python's learning rates. One thread at a time; not collective.
class Adadelta : public torch::optim::Optimizer {
 public:
  // Throws InvalidArgumentError if an option is out of range or a group's options are another
  // optimizer's. Groups without options get the defaults.
  explicit Adadelta(const std::vector<torch::optim::OptimizerParamGroup>& param_groups,
                    const AdadeltaOptions& defaults = {});
  explicit Adadelta(std::vector<torch::Tensor> params, const AdadeltaOptions& defaults = {});

  // Updates, in place, every parameter that has a gradient; the others and their state stay as they
  // are. Any floating or complex dtype, any device. If a closure is given, calls it first, with
  // gradients enabled, and returns its loss. Throws InvalidArgumentError for a sparse gradient.
  torch::Tensor step(LossClosure closure = nullptr) override;
  void save(torch::serialize::OutputArchive& archive) const override;
  // Replaces the whole state and the groups' options. Throws c10::Error if the archive holds
  // something else or another number of parameters; the state is then as before.
  void load(torch::serialize::InputArchive& archive) override;

 private:
  void update(torch::Tensor& parameter, const AdadeltaOptions& options);
  AdadeltaParamState& state_of(const torch::Tensor& parameter);
};

}  // namespace kolo::optim
