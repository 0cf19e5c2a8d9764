#include "kolo/optim/adadelta.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros_like.h>
#include <torch/optim/serialize.h>
#include <torch/serialize/archive.h>

#include <memory>
#include <string>
#include <utility>

#include "kolo/error.h"

namespace kolo::optim {
namespace {

void check(bool right, const char* name, double value, const char* range) {
  if (right) return;
  throw InvalidArgumentError(std::string("Adadelta: ") + name + " is " + std::to_string(value) +
                             "; it must be " + range);
}

void check(const AdadeltaOptions& options) {
  check(options.lr() >= 0, "lr", options.lr(), "0 or more");
  check(options.rho() >= 0 && options.rho() <= 1, "rho", options.rho(), "between 0 and 1");
  check(options.eps() >= 0, "eps", options.eps(), "0 or more");
  check(options.weight_decay() >= 0, "weight_decay", options.weight_decay(), "0 or more");
}

const AdadeltaOptions& options_of(const torch::optim::OptimizerParamGroup& group) {
  const auto* options = dynamic_cast<const AdadeltaOptions*>(&group.options());
  if (options == nullptr) {
    throw InvalidArgumentError(
        "Adadelta: a parameter group has another optimizer's options; give it AdadeltaOptions");
  }
  return *options;
}

// Complex numbers are treated as pairs of real ones, as in Python.
torch::Tensor as_real(const torch::Tensor& tensor) {
  return tensor.is_complex() ? at::view_as_real(tensor) : tensor;
}

}  // namespace

AdadeltaOptions::AdadeltaOptions(double lr) : lr_(lr) {}

double AdadeltaOptions::get_lr() const {
  return lr();
}

void AdadeltaOptions::set_lr(double lr) {
  this->lr(lr);
}

bool operator==(const AdadeltaOptions& left, const AdadeltaOptions& right) {
  return left.lr() == right.lr() && left.rho() == right.rho() && left.eps() == right.eps() &&
         left.weight_decay() == right.weight_decay();
}

void AdadeltaOptions::serialize(torch::serialize::OutputArchive& archive) const {
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(lr);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(rho);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(eps);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(weight_decay);
}

void AdadeltaOptions::serialize(torch::serialize::InputArchive& archive) {
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, lr);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, rho);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, eps);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, weight_decay);
}

void AdadeltaParamState::serialize(torch::serialize::OutputArchive& archive) const {
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(step);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(square_avg);
  _TORCH_OPTIM_SERIALIZE_TORCH_ARG(acc_delta);
}

void AdadeltaParamState::serialize(torch::serialize::InputArchive& archive) {
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(std::int64_t, step);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(torch::Tensor, square_avg);
  _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(torch::Tensor, acc_delta);
}

Adadelta::Adadelta(const std::vector<torch::optim::OptimizerParamGroup>& param_groups,
                   const AdadeltaOptions& defaults)
    : Optimizer(param_groups, std::make_unique<AdadeltaOptions>(defaults)) {
  check(defaults);
  for (const auto& group : param_groups_) check(options_of(group));
}

Adadelta::Adadelta(std::vector<torch::Tensor> params, const AdadeltaOptions& defaults)
    : Adadelta({torch::optim::OptimizerParamGroup(std::move(params))}, defaults) {}

AdadeltaParamState& Adadelta::state_of(const torch::Tensor& parameter) {
  std::unique_ptr<torch::optim::OptimizerParamState>& state =
      state_[parameter.unsafeGetTensorImpl()];
  if (!state) {
    auto created = std::make_unique<AdadeltaParamState>();
    created->square_avg(at::zeros_like(parameter));
    created->acc_delta(at::zeros_like(parameter));
    state = std::move(created);
  }
  return static_cast<AdadeltaParamState&>(*state);
}

void Adadelta::update(torch::Tensor& parameter, const AdadeltaOptions& options) {
  if (parameter.grad().layout() != at::kStrided) {
    throw InvalidArgumentError("Adadelta: the gradient of a parameter is sparse; make it dense");
  }
  const double rho = options.rho();
  AdadeltaParamState& state = state_of(parameter);
  state.step(state.step() + 1);
  torch::Tensor value = as_real(parameter);
  torch::Tensor gradient = as_real(parameter.grad());
  torch::Tensor square_avg = as_real(state.square_avg());
  torch::Tensor acc_delta = as_real(state.acc_delta());
  if (options.weight_decay() != 0) gradient = gradient.add(value, options.weight_decay());
  square_avg.mul_(rho).addcmul_(gradient, gradient, 1 - rho);
  torch::Tensor delta = acc_delta.add(options.eps()).sqrt_();
  delta.div_(square_avg.add(options.eps()).sqrt_()).mul_(gradient);
  acc_delta.mul_(rho).addcmul_(delta, delta, 1 - rho);
  value.add_(delta, -options.lr());
}

torch::Tensor Adadelta::step(LossClosure closure) {
  const at::NoGradGuard no_grad;
  torch::Tensor loss;
  if (closure) {
    const at::AutoGradMode enable_grad(true);
    loss = closure();
  }
  for (auto& group : param_groups_) {
    const AdadeltaOptions& options = options_of(group);
    for (torch::Tensor& parameter : group.params()) {
      if (parameter.grad().defined()) update(parameter, options);
    }
  }
  return loss;
}

void Adadelta::save(torch::serialize::OutputArchive& archive) const {
  torch::optim::serialize<AdadeltaParamState, AdadeltaOptions>(archive, *this);
}

void Adadelta::load(torch::serialize::InputArchive& archive) {
  // LibTorch's serialize() leaves the state of parameters that the archive has none for.
  auto previous = std::exchange(state_, {});
  try {
    torch::optim::serialize<AdadeltaParamState, AdadeltaOptions>(archive, *this);
  } catch (...) {
    state_ = std::move(previous);
    throw;
  }
}

}  // namespace kolo::optim
