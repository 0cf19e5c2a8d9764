// Rprop: steps whose sizes follow the signs of the gradient.
#pragma once

#include <kolo/optim/base.h>

#include <cstdint>
#include <tuple>
#include <vector>

namespace kolo::optim {

// lr 0 or more: the first step's size; etas, below 1 and above 1: by which sizes shrink and grow;
// step_sizes: the smallest and the largest; maximize: goes up instead of down. The defaults are
// Python's.
struct RpropOptions : public detail::Options<RpropOptions> {
  static constexpr const char* kOptimizer = "Rprop";  // for messages

  // Not explicit: LibTorch's options convert from a learning rate, and its serialisation needs it.
  RpropOptions(double lr = 1e-2);  // NOLINT(google-explicit-constructor)
  TORCH_ARG(double, lr) = 1e-2;
  TORCH_ARG(detail::Pair, etas) = detail::Pair(0.5, 1.2);
  TORCH_ARG(detail::Pair, step_sizes) = detail::Pair(1e-6, 50);
  TORCH_ARG(bool, maximize) = false;

 public:
  // Throws InvalidArgumentError if an option is out of range.
  void check() const;
  // Calls visit(name, field) for each field.
  template <class Self, class Visit>
  static void visit_fields(Self& self, const Visit& visit) {
    visit("lr", self.lr_);
    visit("etas", self.etas_);
    visit("step_sizes", self.step_sizes_);
    visit("maximize", self.maximize_);
  }
};

// The state of Rprop for one parameter.
struct RpropParamState : public detail::ParamState<RpropParamState> {
  RpropParamState() = default;
  // Before the first step.
  RpropParamState(const torch::Tensor& parameter, const RpropOptions& options);
  TORCH_ARG(std::int64_t, step) = 0;  // steps that were taken
  TORCH_ARG(torch::Tensor, prev);     // the last step's gradient, 0 where its sign changed
  TORCH_ARG(torch::Tensor, step_size);

 public:
  // Calls visit(name, field) for each field.
  template <class Self, class Visit>
  static void visit_fields(Self& self, const Visit& visit) {
    visit("step", self.step_);
    visit("prev", self.prev_);
    visit("step_size", self.step_size_);
  }
};

extern template class detail::PerParameterOptimizer<RpropOptions, RpropParamState>;

// Resilient backpropagation (Riedmiller and Braun 1993, A direct adaptive method for faster
// backpropagation learning), for whole batches. For a parameter x with the gradient g:
//
//   step_size *= etas[1] where g has the sign of prev, etas[0] where it has the other one
//   step_size = clamp(step_size, step_sizes[0], step_sizes[1])
//   g = 0 where the sign changed
//   x -= sign(g) * step_size,  prev = g
//
// LibTorch lacks it. Results agree with Python's torch.optim.Rprop up to rounding. Use it like any
// LibTorch optimizer: with schedulers, parameter groups, torch::save and torch::load,
// DistributedOptimizer and Checkpoint.
class Rprop : public detail::PerParameterOptimizer<RpropOptions, RpropParamState> {
 public:
  // Throws InvalidArgumentError if an option is out of range or a group's options are another
  // optimizer's. Groups without options get the defaults.
  explicit Rprop(const std::vector<torch::optim::OptimizerParamGroup>& param_groups,
                 const RpropOptions& defaults = {});
  // One group of parameters.
  explicit Rprop(std::vector<torch::Tensor> params, const RpropOptions& defaults = {});

 private:
  void update(torch::Tensor& value, const torch::Tensor& gradient, RpropParamState& state,
              const RpropOptions& options) const override;
};

}  // namespace kolo::optim
