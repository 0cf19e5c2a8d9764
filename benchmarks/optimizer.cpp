// kolo bench optimizer: a step of kolo's fused optimizers and of LibTorch's own, and the comparison
// of what they work on.
#include <kolo/agreement.h>
#include <kolo/error.h>
#include <kolo/optim/fused.h>
#include <torch/torch.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/benchmarks.hpp"
#include "benchmarks/models.hpp"

namespace kolo::bench {
namespace {

constexpr int kOptimizerSamples = 20;
constexpr double kRate = 0.25;

void forget(torch::optim::SGDParamState& state) {
  state.momentum_buffer().zero_();
}
template <class AdamState>
void forget(AdamState& state) {
  state.step(0);
  state.exp_avg().zero_();
  state.exp_avg_sq().zero_();
}

// The values of a parameter of ones after the first step.
at::Tensor after_step(const torch::optim::SGDOptions& options, const at::Tensor& gradient) {
  return 1 - options.lr() * gradient;
}
at::Tensor after_step(const torch::optim::AdamOptions& options, const at::Tensor& gradient) {
  return 1 - options.lr() * gradient.sign();
}
at::Tensor after_step(const torch::optim::AdamWOptions& options, const at::Tensor& gradient) {
  return 1 - options.lr() * options.weight_decay() - options.lr() * gradient.sign();
}

// A step of a model's parameters, always the first one, so that it can be checked; its state has
// memory from the rehearsal on.
template <class Optimizer, class Options, class State>
class Step final : public Contender {
 public:
  Step(int rank, std::string name, const std::vector<Parameter>& parameters, const Options& options)
      : rank_(rank), name_(std::move(name)), options_(options) {
    for (const Parameter& parameter : parameters) {
      names_.push_back(parameter.name);
      values_.push_back(torch::ones(parameter.shape).requires_grad_());
      values_.back().mutable_grad() = torch::zeros(parameter.shape);
    }
    optimizer_.emplace(values_, options);
    optimizer_->step();
  }

  std::string name() const override { return name_; }
  void refresh(const Pattern& pattern) override {
    const at::NoGradGuard no_grad;
    std::size_t offset = 0;
    for (const at::Tensor& value : values_) {
      value.fill_(1);
      const auto count = static_cast<std::size_t>(value.numel());
      pattern.fill(value.grad().data_ptr<float>(), count, offset);
      offset += count;
      forget(static_cast<State&>(*optimizer_->state().at(value.unsafeGetTensorImpl())));
    }
  }
  void run() override { optimizer_->step(); }
  std::string check(const Pattern& /*pattern*/) override {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const at::Tensor wanted = after_step(options_, values_[i].grad());
      if (!at::allclose(values_[i], wanted, 1e-5, 1e-5))
        return "'" + names_[i] + "' on rank " + std::to_string(rank_) + " is wrong after the step";
    }
    return "";
  }

 private:
  const int rank_;
  const std::string name_;
  const Options options_;
  std::vector<std::string> names_;
  std::vector<at::Tensor> values_;
  std::optional<Optimizer> optimizer_;
};

template <class Fused, class Plain, class State, class Options>
Contenders both(const Group& group, const std::vector<Parameter>& parameters,
                const Options& options) {
  Contenders contenders;
  contenders.push_back(
      std::make_unique<Step<Fused, Options, State>>(group.rank(), "kolo", parameters, options));
  contenders.push_back(
      std::make_unique<Step<Plain, Options, State>>(group.rank(), "plain", parameters, options));
  return contenders;
}

// The ranks compare a model's parameters and the options and state of Adam.
class InSync final : public Contender {
 public:
  InSync(const Group& group, const std::vector<Parameter>& parameters) : group_(group) {
    for (const Parameter& parameter : parameters) {
      std::string name = parameter.name;
      std::replace(name.begin(), name.end(), '.', '_');
      at::Tensor values = model_.register_parameter(name, torch::ones(parameter.shape));
      values.mutable_grad() = torch::ones(parameter.shape);
    }
    optimizer_.emplace(model_.parameters(), torch::optim::AdamOptions(kRate));
    optimizer_->step();
  }

  std::string name() const override { return "kolo"; }
  void refresh(const Pattern& /*pattern*/) override {}
  void run() override { check_in_sync(model_, *optimizer_); }
  // A difference on one rank must be noticed.
  std::string check(const Pattern& /*pattern*/) override {
    if (group_.size() == 1) return "";
    const at::NoGradGuard no_grad;
    const at::Tensor value = model_.parameters().back().view(-1)[0];
    const double before = value.item<double>();
    if (group_.rank() == 0) value.add_(1);
    std::string error = "a difference between ranks was not noticed";
    try {
      run();
    } catch (const MismatchError&) {
      error.clear();
    }
    value.fill_(before);
    return error;
  }

 private:
  const Group& group_;  // outlives the benchmark's contenders
  torch::nn::Module model_;
  std::optional<torch::optim::Adam> optimizer_;
};

}  // namespace

void bench_optimizer(Group& group, const Options& options, const Publish& publish) {
  namespace torch_optim = torch::optim;
  const std::vector<Parameter> parameters = parameters_of(options.model).value();
  const auto bytes = static_cast<std::int64_t>(elements_of(parameters) * sizeof(float));
  const Schedule schedule{options.warm_up,
                          options.samples > 0 ? options.samples : kOptimizerSamples};
  const auto measure = [&](const std::string& name, const Contenders& contenders,
                           std::int64_t times = 1) {
    const std::string work = name + "/" + options.model + "/" + std::to_string(group.size());
    publish.rows(measure_rows(group, contenders, schedule, work, times * bytes));
  };
  measure("sgd", both<optim::FusedSGD, torch_optim::SGD, torch_optim::SGDParamState>(
                     group, parameters, torch_optim::SGDOptions(kRate).momentum(0.9)));
  measure("adam", both<optim::FusedAdam, torch_optim::Adam, torch_optim::AdamParamState>(
                      group, parameters, torch_optim::AdamOptions(kRate)));
  measure("adamw", both<optim::FusedAdamW, torch_optim::AdamW, torch_optim::AdamWParamState>(
                       group, parameters, torch_optim::AdamWOptions(kRate)));
  Contenders in_sync;
  in_sync.push_back(std::make_unique<InSync>(group, parameters));
  measure("check-in-sync", in_sync, 3);  // each parameter has two of Adam's tensors
}

}  // namespace kolo::bench
