#include <ATen/ATen.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <functional>
#include <optional>

#include "core/thread_annotations.hpp"
#include "kolo/error.h"
#include "kolo/operations.h"
#include "kolo/optimizer.h"
#include "torch_ops/handle_state.hpp"
#include "torch_ops/tensor.hpp"

namespace kolo::detail {

namespace {

// Of several things that are done one after the other, all are tried; then the first error is
// thrown.
class FirstError {
 public:
  template <typename Function>
  void catch_from(Function&& function) {
    try {
      function();
    } catch (...) {
      if (!first_) first_ = std::current_exception();
    }
  }
  void rethrow() {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  std::exception_ptr first_;
};

}  // namespace

struct GradientReducer::State {
  struct Parameter {
    at::Tensor tensor;
    std::string name;
    std::optional<Handle> reduction;  // in flight
    at::Tensor zeros;                 // submitted instead of an undefined gradient
  };

  DistributedOptimizerOptions options;  // constant after construction

  // Hooks may run on several threads at once: autograd has one a device.
  Mutex mutex;
  std::vector<Parameter> parameters KOLO_GUARDED_BY(mutex);
  bool synchronized KOLO_GUARDED_BY(mutex) = false;  // no gradient was accumulated since
  bool skip KOLO_GUARDED_BY(mutex) = false;

  void gradient_ready(std::size_t index) KOLO_EXCLUDES(mutex);
  void submit(Parameter& parameter) KOLO_REQUIRES(mutex);
  void submit_missing(FirstError& error) KOLO_REQUIRES(mutex);
  void wait_for_all(FirstError& error) KOLO_REQUIRES(mutex);
  static void finish(Parameter& parameter);
};

namespace {

using torch::autograd::PostAccumulateGradHook;

// Called by autograd when a parameter's gradient has been accumulated. Runs a hook that was there
// before it first.
class ReduceHook final : public PostAccumulateGradHook {
 public:
  ReduceHook(std::function<void()> ready, std::unique_ptr<PostAccumulateGradHook> before)
      : ready_(std::move(ready)), before_(std::move(before)) {}

  void operator()(const at::Tensor& parameter) override {
    if (before_) (*before_)(parameter);
    ready_();
  }

  std::unique_ptr<PostAccumulateGradHook> release_before() { return std::move(before_); }

 private:
  std::function<void()> ready_;
  std::unique_ptr<PostAccumulateGradHook> before_;
};

ReduceHook* hook_of(const at::Tensor& parameter) {
  // A tensor that never needed a gradient has no place for hooks yet.
  torch::autograd::impl::materialize_autograd_meta(parameter);
  return dynamic_cast<ReduceHook*>(torch::autograd::impl::post_acc_grad_hooks(parameter).get());
}

}  // namespace

GradientReducer::GradientReducer(DistributedOptimizerOptions options)
    : state_(std::make_shared<State>()) {
  if (options.name().empty()) {
    options.name("optimizer" + std::to_string(session("DistributedOptimizer")->next_optimizer()));
  }
  if (!options.process_set().included()) {
    throw InvalidArgumentError(options.name() + ": this rank is no member of process set " +
                               std::to_string(options.process_set().id()) +
                               "; make the optimizer on its members only");
  }
  state_->options = std::move(options);
}

GradientReducer::~GradientReducer() {
  MutexLock lock(state_->mutex);
  for (State::Parameter& parameter : state_->parameters) {
    ReduceHook* hook = hook_of(parameter.tensor);
    if (hook == nullptr) continue;  // somebody put another hook in its place
    torch::autograd::impl::set_post_acc_grad_hooks(parameter.tensor, hook->release_before());
  }
}

void GradientReducer::attach(const std::vector<torch::optim::OptimizerParamGroup>& groups) {
  MutexLock lock(state_->mutex);
  std::size_t index = 0;
  for (const auto& group : groups) {
    for (const at::Tensor& tensor : group.params()) {
      if (index++ < state_->parameters.size()) continue;
      if (hook_of(tensor) != nullptr) {
        throw InvalidArgumentError(
            "parameter " + std::to_string(index - 1) + " of " + state_->options.name() +
            " belongs to another DistributedOptimizer already: its gradient would "
            "be reduced twice; destroy that one first");
      }
      const std::string name = state_->options.name() + ".gradient." + std::to_string(index - 1);
      state_->parameters.push_back({tensor, name, std::nullopt, {}});
      // Autograd may be running the hook while this object is destroyed.
      auto ready = [weak = std::weak_ptr<State>(state_), at = index - 1] {
        if (const auto state = weak.lock()) state->gradient_ready(at);
      };
      auto before = std::move(torch::autograd::impl::post_acc_grad_hooks(tensor));
      torch::autograd::impl::set_post_acc_grad_hooks(
          tensor, std::make_unique<ReduceHook>(std::move(ready), std::move(before)));
    }
  }
}

void GradientReducer::State::gradient_ready(std::size_t index) {
  MutexLock lock(mutex);
  Parameter& parameter = parameters[index];
  if (parameter.reduction) {
    throw InvalidArgumentError(
        "the gradient of " + parameter.name + ", shape " +
        to_string(parameter.tensor.sizes().vec()) +
        ", was accumulated a second time before step() or synchronize(): its reduction is in "
        "flight. Call "
        "step() after each backward(), or add the losses up and call backward() once");
  }
  synchronized = false;
  submit(parameter);
}

void GradientReducer::State::submit(Parameter& parameter) {
  const std::shared_ptr<Session> running = session("DistributedOptimizer");
  const std::string what =
      "allreduce of '" + parameter.name + "' on rank " + std::to_string(running->topology().rank);
  at::Tensor gradient = parameter.tensor.grad();
  const bool absent = !gradient.defined();
  // Autograd may give two parameters views of one storage as gradients (those of a sum, say), which
  // is fine for reading; reduced in place, it would be reduced twice.
  if (!absent && gradient.has_storage() && gradient.storage().use_count() > 1) {
    gradient = parameter.tensor.mutable_grad() = gradient.clone();
  }
  if (absent)
    gradient = parameter.zeros = at::zeros_like(parameter.tensor, at::MemoryFormat::Contiguous);
  Descriptor descriptor;
  descriptor.op = options.op();
  std::shared_ptr<Operation> operation =
      make_operation(what, parameter.name, {gradient}, std::move(descriptor));
  operation->absent = absent;
  operation->process_set = options.process_set().id();
  parameter.reduction = kolo::submit(running, std::move(operation),
                                     std::make_shared<const at::Tensor>(std::move(gradient)));
}

// Parameters that backward() did not reach here, but may have reached on another rank. One that
// cannot be submitted does not keep the others from it.
void GradientReducer::State::submit_missing(FirstError& error) {
  for (Parameter& parameter : parameters) {
    if (parameter.reduction || !parameter.tensor.requires_grad()) continue;
    error.catch_from([&] { submit(parameter); });
  }
}

void GradientReducer::State::finish(Parameter& parameter) {
  Handle handle = std::move(*parameter.reduction);
  parameter.reduction.reset();
  const at::Tensor zeros = std::exchange(parameter.zeros, {});
  handle.wait();
  if (zeros.defined() && !handle.absent_everywhere()) parameter.tensor.mutable_grad() = zeros;
}

// Every reduction is waited for, so that all gradients are the caller's again.
void GradientReducer::State::wait_for_all(FirstError& error) {
  for (Parameter& parameter : parameters) {
    if (parameter.reduction) error.catch_from([&] { finish(parameter); });
  }
}

void GradientReducer::synchronize() {
  MutexLock lock(state_->mutex);
  FirstError error;
  state_->submit_missing(error);
  state_->wait_for_all(error);
  error.rethrow();
  state_->synchronized = true;
}

void GradientReducer::synchronize_unless_done() {
  {
    MutexLock lock(state_->mutex);
    const bool done = std::exchange(state_->synchronized, false);
    if (state_->skip || done) return;
  }
  synchronize();
  MutexLock lock(state_->mutex);
  state_->synchronized = false;
}

void GradientReducer::check_no_reduction_in_flight(const char* call) const {
  MutexLock lock(state_->mutex);
  for (const State::Parameter& parameter : state_->parameters) {
    if (!parameter.reduction) continue;
    throw InvalidArgumentError(
        std::string(call) + "() between backward() and step(): the gradient of " + parameter.name +
        " is being reduced; call it before backward() or after step()");
  }
}

at::Tensor GradientReducer::average_loss(const at::Tensor& loss) {
  if (!loss.defined()) return loss;
  return allreduce(loss, AllreduceOptions(state_->options.name() + ".loss")
                             .process_set(state_->options.process_set()));
}

void GradientReducer::set_skip(bool skip) {
  MutexLock lock(state_->mutex);
  state_->skip = skip;
}

}  // namespace kolo::detail
