#include "torch_ops/gradient_reducer.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <functional>

#include "kolo/error.h"
#include "timeline/nvtx.hpp"
#include "torch_ops/call.hpp"

namespace kolo::detail {

namespace {

using torch::autograd::PostAccumulateGradHook;

// Called by autograd when a parameter's gradient has been accumulated. Runs a hook that was there
// before it first. Stays with the parameter when its owner is gone, and does nothing then: autograd
// may be running it.
class ReduceHook final : public PostAccumulateGradHook {
 public:
  ReduceHook(const std::shared_ptr<void>& owner, std::function<void()> ready,
             std::unique_ptr<PostAccumulateGradHook> before)
      : owner_(owner), ready_(std::move(ready)), before_(std::move(before)) {}

  void operator()(const at::Tensor& parameter) override {
    if (before_) (*before_)(parameter);
    if (const auto owner = owner_.lock()) ready_();
  }

  std::shared_ptr<void> owner() const { return owner_.lock(); }
  // Not while a backward pass runs.
  void give_to(const std::shared_ptr<void>& owner, std::function<void()> ready) {
    owner_ = owner;
    ready_ = std::move(ready);
  }

 private:
  std::weak_ptr<void> owner_;
  std::function<void()> ready_;
  std::unique_ptr<PostAccumulateGradHook> before_;
};

// How many tensors refer to the storage of a gradient that is nobody else's, while its hook runs:
// autograd's own is one of them, or not, as LibTorch likes.
std::size_t references_in_hook() {
  static const std::size_t seen = [] {
    const at::AutoGradMode with_gradients(true);
    const c10::InferenceMode outside(false);
    at::Tensor leaf = at::zeros({2}).requires_grad_();
    std::size_t references = 1;
    const auto look = [&] { references = leaf.grad().storage().use_count(); };
    const auto owner = std::make_shared<int>();
    torch::autograd::impl::set_post_acc_grad_hooks(
        leaf, std::make_unique<ReduceHook>(owner, look, nullptr));
    (leaf * 2).sum().backward();
    return references;
  }();
  return seen;
}

ReduceHook* hook_of(const at::Tensor& parameter) {
  // A tensor that never needed a gradient has no place for hooks yet.
  torch::autograd::impl::materialize_autograd_meta(parameter);
  return dynamic_cast<ReduceHook*>(torch::autograd::impl::post_acc_grad_hooks(parameter).get());
}

// The optimizer that reduces this parameter's gradient, or null.
std::shared_ptr<void> owner_of(const at::Tensor& parameter) {
  const ReduceHook* const hook = hook_of(parameter);
  return hook == nullptr ? nullptr : hook->owner();
}

// Not while a backward pass runs.
void set_hook(const at::Tensor& parameter, const std::shared_ptr<void>& owner,
              std::function<void()> ready) {
  if (ReduceHook* const hook = hook_of(parameter)) {
    hook->give_to(owner, std::move(ready));
    return;
  }
  auto before = std::move(torch::autograd::impl::post_acc_grad_hooks(parameter));
  torch::autograd::impl::set_post_acc_grad_hooks(
      parameter, std::make_unique<ReduceHook>(owner, std::move(ready), std::move(before)));
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
  check_options(options);
  state_->options = std::move(options);
}

GradientReducer::~GradientReducer() {
  if (const auto running = session_or_null()) running->engine().tracing().stop_counting(this);
}

void GradientReducer::attach(const std::vector<torch::optim::OptimizerParamGroup>& groups) {
  references_in_hook();  // not amid a backward pass
  MutexLock lock(state_->mutex);
  const std::size_t known = state_->parameters.size();
  std::size_t listed = 0;
  std::vector<at::Tensor> added;
  for (const auto& group : groups) {
    for (const at::Tensor& tensor : group.params()) {
      if (listed++ < state_->listed) continue;
      const auto owner = owner_of(tensor);
      if (owner != nullptr && owner != state_) {
        throw InvalidArgumentError(
            "parameter " + std::to_string(listed - 1) + " of " + state_->options.name() +
            " belongs to another DistributedOptimizer already: its gradient would "
            "be reduced twice; destroy that one first");
      }
      added.push_back(tensor);
    }
  }
  state_->listed = listed;
  for (const at::Tensor& tensor : added) {
    if (owner_of(tensor) == state_) continue;  // listed twice
    const std::size_t index = state_->parameters.size();
    state_->parameters.emplace_back().tensor = tensor;
    set_hook(tensor, state_, [state = state_.get(), index] { state->gradient_ready(index); });
  }
  if (state_->parameters.size() == known) return;
  state_->name_parameters(known);
  state_->add_units(known);
}

void GradientReducer::State::gradient_ready(std::size_t index) {
  if (is_fork_of_rank()) return;
  MutexLock lock(mutex);
  Parameter& parameter = parameters[index];
  Unit& unit = units[parameter.unit];
  if (reduces_steps()) return;
  if (unit.in_flight()) {
    throw InvalidArgumentError(
        "the gradient of " + parameter.name + ", shape " +
        to_string(parameter.tensor.sizes().vec()) +
        ", was accumulated once more before step() or synchronize(): its reduction is in "
        "flight. Call step() after backward(), say how often backward() comes with "
        "backward_passes_per_step, or accumulate under no_sync()");
  }
  synchronized = false;
  ++parameter.accumulations;
  if (no_sync > 0) return;
  ++parameter.passes;
  if (!is_ready(unit) || !may_be_submitted(unit)) return;
  in_hook = &parameter;
  FirstError error;
  error.catch_from([&] { send(parameter.unit, error); });
  in_hook = nullptr;
  error.rethrow();
}

// In the first step a rank cannot know whether the others' gradients are sparse, or whether they
// have any: then a dense one goes alone, and all else waits for synchronize().
bool GradientReducer::State::may_be_submitted(const Unit& unit) const {
  if (options.sparse_as_dense()) return true;
  const auto known = [&](std::size_t member) {
    const Parameter& parameter = parameters[member];
    return !parameter.tensor.requires_grad() || parameter.layout != Layout::kUnknown;
  };
  if (std::all_of(unit.members.begin(), unit.members.end(), known)) return true;
  return unit.members.size() == 1 && !parameters[unit.members[0]].tensor.grad().is_sparse();
}

// Once for each parameter: sparse where some ranks' gradients are and no rank's is dense. Of one
// that no rank has a gradient of yet, all that come later are made dense.
void GradientReducer::State::agree_on_layouts() {
  if (options.sparse_as_dense()) return;
  std::vector<Parameter*> unknown;
  for (Parameter& parameter : parameters) {
    if (parameter.tensor.requires_grad() && parameter.layout == Layout::kUnknown)
      unknown.push_back(&parameter);
  }
  if (unknown.empty()) return;
  at::Tensor seen = at::zeros({static_cast<std::int64_t>(unknown.size()), 2}, at::kBool);
  for (std::size_t i = 0; i < unknown.size(); ++i) {
    const at::Tensor gradient = unknown[i]->tensor.grad();
    if (gradient.defined()) seen[static_cast<std::int64_t>(i)][gradient.is_sparse() ? 1 : 0] = true;
  }
  seen = allreduce(seen, AllreduceOptions(options.name() + ".layouts")
                             .op(ReduceOp::Max)
                             .process_set(options.process_set()));
  const auto has = seen.accessor<bool, 2>();
  for (std::size_t i = 0; i < unknown.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    unknown[i]->layout = has[at][1] && !has[at][0] ? Layout::kSparse : Layout::kDense;
  }
}

bool GradientReducer::State::is_ready(const Unit& unit) const {
  return std::all_of(unit.members.begin(), unit.members.end(), [&](std::size_t member) {
    const Parameter& parameter = parameters[member];
    return !parameter.tensor.requires_grad() ||
           parameter.passes >= options.backward_passes_per_step();
  });
}

bool GradientReducer::State::is_trainable(const Unit& unit) const {
  return std::any_of(unit.members.begin(), unit.members.end(),
                     [&](std::size_t member) { return parameters[member].tensor.requires_grad(); });
}

AllreduceOptions GradientReducer::State::reduction(const std::string& name) const {
  AllreduceOptions reduction =
      AllreduceOptions(name).op(options.op()).process_set(options.process_set());
  const double factor = options.gradient_predivide_factor();
  if (factor == 1.0) return reduction;
  return reduction.op(ReduceOp::Sum)
      .prescale_factor(1.0 / factor)
      .postscale_factor(factor / options.process_set().size());
}

at::Tensor GradientReducer::State::reducible_gradient(Parameter& parameter) const {
  at::Tensor gradient = parameter.tensor.grad();
  if (!gradient.defined()) return gradient;
  gradient = in_layout(parameter, gradient);
  if (!gradient.is_same(parameter.tensor.grad())) parameter.tensor.mutable_grad() = gradient;
  if (shares_storage(parameter, gradient))
    return parameter.tensor.mutable_grad() = gradient.clone();
  return gradient;
}

// Autograd may give two parameters views of one storage as gradients (those of a sum, say), which
// is fine for reading; reduced in place, it would be reduced twice. A gradient that was there
// before this pass is not in autograd's hand.
bool GradientReducer::State::shares_storage(const Parameter& parameter,
                                            const at::Tensor& gradient) const {
  if (gradient.is_sparse() || !gradient.has_storage()) return false;
  const bool just_came = in_hook == &parameter && parameter.accumulations == 1;
  return gradient.storage().use_count() > (just_came ? references_in_hook() : 1);
}

at::Tensor GradientReducer::State::in_layout(const Parameter& parameter,
                                             const at::Tensor& gradient) const {
  const bool dense = options.sparse_as_dense() || parameter.layout == Layout::kDense;
  if (gradient.is_sparse() && dense) return gradient.to_dense();
  if (!gradient.is_sparse() && parameter.layout == Layout::kSparse) return gradient.to_sparse(1);
  return gradient;
}

void GradientReducer::synchronize() {
  if (state_->reduces_steps() || is_fork_of_rank()) return;
  const timeline::nvtx::Scope range("waits for gradients");
  MutexLock lock(state_->mutex);
  FirstError error;
  bool agreed = false;
  error.catch_from([&] {
    state_->agree_on_layouts();
    agreed = true;
  });
  // What is held goes in any case: other ranks may have sent it, and wait.
  error.catch_from([&] { agreed ? state_->submit_missing(error) : state_->submit_held(error); });
  state_->wait_for_all(error);
  error.rethrow();
  state_->synchronized = true;
}

void GradientReducer::synchronize_unless_done() {
  {
    MutexLock lock(state_->mutex);
    const bool done = std::exchange(state_->synchronized, false);
    if (state_->skip > 0 || done) return;
  }
  synchronize();
  MutexLock lock(state_->mutex);
  state_->synchronized = false;
}

void GradientReducer::forget_synchronized() {
  MutexLock lock(state_->mutex);
  state_->synchronized = false;
}

void GradientReducer::check_no_reduction_in_flight(const char* call) const {
  if (is_fork_of_rank()) return;
  MutexLock lock(state_->mutex);
  for (const State::Unit& unit : state_->units) {
    if (!unit.in_flight()) continue;
    throw InvalidArgumentError(std::string(call) +
                               "() between backward() and step(): the gradient of " +
                               state_->parameters[unit.members[0]].name +
                               " is being reduced; call it before backward() or after step()");
  }
}

at::Tensor GradientReducer::average_loss(const at::Tensor& loss) {
  if (!loss.defined() || is_fork_of_rank()) return loss;
  return allreduce(loss, AllreduceOptions(state_->options.name() + ".loss")
                             .process_set(state_->options.process_set()));
}

void GradientReducer::set_skip(bool skip) {
  if (state_->reduces_steps()) {
    throw InvalidArgumentError(state_->options.name() +
                               ": skip_synchronize() with Adasum, where step() itself is what is "
                               "reduced; without it ranks would part. Gradients are this rank's "
                               "own: clip them before step()");
  }
  MutexLock lock(state_->mutex);
  state_->skip += skip ? 1 : -1;
}

void GradientReducer::end_step() {
  if (const auto running = session_or_null()) running->engine().tracing().end_step(this);
}

void GradientReducer::set_no_sync(bool no_sync) {
  MutexLock lock(state_->mutex);
  state_->no_sync += no_sync ? 1 : -1;
}

}  // namespace kolo::detail
