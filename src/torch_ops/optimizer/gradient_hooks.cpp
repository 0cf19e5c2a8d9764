#include "torch_ops/optimizer/gradient_hooks.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <utility>

namespace kolo::detail {
namespace {

using torch::autograd::FunctionPreHook;
using torch::autograd::PostAccumulateGradHook;
using torch::autograd::variable_list;

// The listener that both hooks of a parameter call. The hooks stay with the parameter when the
// listener is destroyed, because autograd may be running them; then they do nothing.
struct Listening {
  std::weak_ptr<GradientListener> listener;
  std::size_t index = 0;
};

class BeforeHook final : public FunctionPreHook {
 public:
  explicit BeforeHook(std::shared_ptr<const Listening> listening)
      : listening_(std::move(listening)) {}

  variable_list operator()(const variable_list& gradients) override {
    if (gradients[0].defined()) {
      if (const auto listener = listening_->listener.lock())
        listener->before_accumulation(listening_->index);
    }
    return gradients;
  }

 private:
  std::shared_ptr<const Listening> listening_;
};

// Runs a hook that was there before it first.
class AfterHook final : public PostAccumulateGradHook {
 public:
  AfterHook(std::shared_ptr<Listening> listening, std::unique_ptr<PostAccumulateGradHook> before)
      : listening_(std::move(listening)), before_(std::move(before)) {}

  void operator()(const at::Tensor& parameter) override {
    const auto gradient = at::Tensor(parameter.grad());  // the hook may replace it
    if (before_) (*before_)(parameter);
    if (const auto listener = listening_->listener.lock())
      listener->accumulated(listening_->index, gradient);
  }

  const std::shared_ptr<Listening>& listening() const { return listening_; }

 private:
  std::shared_ptr<Listening> listening_;
  std::unique_ptr<PostAccumulateGradHook> before_;
};

AfterHook* hook_of(const at::Tensor& parameter) {
  // A tensor that never needed a gradient has no place for hooks yet.
  torch::autograd::impl::materialize_autograd_meta(parameter);
  return dynamic_cast<AfterHook*>(torch::autograd::impl::post_acc_grad_hooks(parameter).get());
}

}  // namespace

std::shared_ptr<GradientListener> listener_of(const at::Tensor& parameter) {
  const AfterHook* const hook = hook_of(parameter);
  return hook == nullptr ? nullptr : hook->listening()->listener.lock();
}

void set_listener(const at::Tensor& parameter, const std::shared_ptr<GradientListener>& listener,
                  std::size_t index) {
  if (const AfterHook* const hook = hook_of(parameter)) {
    *hook->listening() = {listener, index};
    return;
  }
  const auto listening = std::make_shared<Listening>(Listening{listener, index});
  auto before = std::move(torch::autograd::impl::post_acc_grad_hooks(parameter));
  torch::autograd::impl::set_post_acc_grad_hooks(
      parameter, std::make_unique<AfterHook>(listening, std::move(before)));
}

NodePointer hook_before_accumulation(const at::Tensor& parameter) {
  NodePointer node = torch::autograd::impl::grad_accumulator(parameter);
  if (node) node->add_pre_hook(std::make_unique<BeforeHook>(hook_of(parameter)->listening()));
  return node;
}

std::size_t references_when_accumulated() {
  struct Counter final : GradientListener {
    at::Tensor leaf;
    std::size_t references = 1;
    void before_accumulation(std::size_t /*index*/) override {}
    void accumulated(std::size_t /*index*/, const at::Tensor& /*gradient*/) override {
      references = leaf.grad().storage().use_count();
    }
  };
  static const std::size_t seen = [] {
    const at::AutoGradMode with_gradients(true);
    const c10::InferenceMode outside(false);
    const auto counter = std::make_shared<Counter>();
    counter->leaf = at::zeros({2}).requires_grad_();
    set_listener(counter->leaf, counter, 0);
    const auto node = hook_before_accumulation(counter->leaf);
    (counter->leaf * 2).sum().backward();
    return counter->references;
  }();
  return seen;
}

}  // namespace kolo::detail
