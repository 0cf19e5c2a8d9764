#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <cstddef>
#include <memory>
#include <utility>

namespace kolo::detail {

// A reference to a node of autograd's graph: a std::shared_ptr or, in newer versions of LibTorch,
// an intrusive pointer. LibTorch 2.15.
using NodePointer =
    decltype(torch::autograd::impl::grad_accumulator(std::declval<const at::Tensor&>()));

// Notified whenever a parameter's gradient changes. Autograd may call it from several threads at
// once.
class GradientListener {
 public:
  virtual ~GradientListener() = default;
  // Something will be added to the gradient of parameter `index`. Called while the node lives that
  // hook_before_accumulation() returned.
  virtual void before_accumulation(std::size_t index) = 0;
  // Something was added to it. `gradient`: what autograd has left; a hook of the program may have
  // put another one in its place since.
  virtual void accumulated(std::size_t index, const at::Tensor& gradient) = 0;
};

// The listener to this parameter's gradient; null if it has none or that one was destroyed.
std::shared_ptr<GradientListener> listener_of(const at::Tensor& parameter);

// Replaces the parameter's listener. Must not be called during a backward pass.
void set_listener(const at::Tensor& parameter, const std::shared_ptr<GradientListener>& listener,
                  std::size_t index);

// Makes autograd call before_accumulation(). The returned node must be kept for that: autograd
// makes another one when nobody holds it, or when the parameter gets data of another dtype or
// device. Null if the parameter needs no gradient.
NodePointer hook_before_accumulation(const at::Tensor& parameter);

// The number of tensors that refer to the storage of a new gradient in accumulated(), if nobody
// else does. Autograd's own reference may be one of them; that depends on LibTorch's version.
std::size_t references_when_accumulated();

}  // namespace kolo::detail
