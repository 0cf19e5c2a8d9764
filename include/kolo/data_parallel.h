// Computes on several devices in one process.
#pragma once

#include <ATen/ATen.h>
#include <ATen/ThreadLocalState.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/intrusive_ptr.h>
#include <kolo/error.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/cuda.h>
#include <torch/nn/module.h>

#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace kolo {
namespace detail {

// Adds up the gradients of a parameter's copies, on the parameter's device. Copies that forward()
// has not used contribute nothing.
struct AddGradientsOfCopies : torch::autograd::Node {
  explicit AddGradientsOfCopies(const at::Tensor& parameter)
      : Node(torch::autograd::collect_next_edges(parameter)), device(parameter.device()) {}

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    at::Tensor sum;
    for (const at::Tensor& gradient : gradients) {
      if (!gradient.defined()) continue;
      const at::Tensor here = gradient.to(device);
      sum = sum.defined() ? sum + here : here;
    }
    return {sum};
  }

  const at::Device device;
};

// Autograd's pointer to a node: a std::shared_ptr or, in newer versions of LibTorch, an intrusive
// pointer.
using AutogradPointer = decltype(torch::autograd::Edge::function);

template <class Pointer, class Made>
Pointer make_node(const at::Tensor& parameter) {
  if constexpr (std::is_same_v<Pointer, std::shared_ptr<torch::autograd::Node>>) {
    return std::make_shared<Made>(parameter);
  } else {
    return c10::make_intrusive<Made>(parameter);
  }
}

}  // namespace detail

// A module whose forward() computes the parts of a batch on several devices at the same time, as
// torch.nn.DataParallel does in Python. Use it for inference, or for training if the program cannot
// run one rank per device, which is faster. Its parameters are those of the module in it.
//
//   auto parallel = std::make_shared<kolo::DataParallel<NetImpl>>(net.ptr());
//   const torch::Tensor output = parallel->forward(images);  // on the first device
//
// Contained::forward() takes a tensor of shape [N, ...], which it does not change in place, and
// returns one. Contained::clone() is that of torch::nn::Cloneable or torch::nn::Sequential. With
// gradients, each call copies the module to the devices, and backward() adds up the copies'
// gradients. Without gradients, the copies are kept, and only the values are copied. In training
// mode, the module's buffers (running statistics) become those of the first device's copy. The
// order in which parts draw random numbers is not fixed, so dropout differs between runs. One
// thread at a time; not collective.
template <class Contained>
class DataParallel : public torch::nn::Module {
 public:
  // Moves the module to the first of the devices, which may contain a device more than once.
  // Default: all CUDA devices that the process sees. InvalidArgumentError if the module is null, or
  // there is no device.
  explicit DataParallel(std::shared_ptr<Contained> module, std::vector<at::Device> devices = {})
      : devices_(std::move(devices)) {
    if (module == nullptr) throw InvalidArgumentError("DataParallel: the module is null");
    if (devices_.empty()) {
      for (auto left = torch::cuda::device_count(); left > 0; --left)
        devices_.emplace(devices_.begin(), at::kCUDA, static_cast<c10::DeviceIndex>(left - 1));
    }
    if (devices_.empty()) {
      throw InvalidArgumentError("DataParallel: the process sees no CUDA device; give it devices");
    }
    module_ = this->register_module("module", std::move(module));
    module_->to(devices_.front());
  }

  // Returns the module's output for `input`, a tensor of shape [N, ...] on any device. The output
  // has shape [N, ...] and lies on the first device. Each device gets N / devices samples, rounded
  // up; the last ones may get fewer or none. InvalidArgumentError if N is 0. Rethrows what the
  // module throws, after all devices have ended.
  at::Tensor forward(const at::Tensor& input) {
    if (input.dim() == 0 || input.size(0) == 0)
      throw InvalidArgumentError("DataParallel: the input has no samples in dimension 0");
    std::vector<at::Tensor> parts = input.chunk(static_cast<std::int64_t>(devices_.size()), 0);
    for (std::size_t i = 0; i < parts.size(); ++i) parts[i] = parts[i].to(devices_[i]);
    const bool learns = at::GradMode::is_enabled();
    const Copies copies = learns ? new_copies(parts.size()) : kept_copies();
    const std::vector<at::Tensor> outputs = apply(copies, parts);
    if (learns && module_->is_training()) take_buffers(*copies.front());
    return at::cat(outputs, 0);
  }

  // The module that this was constructed with.
  const std::shared_ptr<Contained>& module() const { return module_; }

  // Drops the copies that are kept for calls without gradients; the next such call makes new ones.
  // Every call updates the copies' parameters, buffers and training modes, but no other members.
  // Call this after changing one, such as a dropout rate.
  void refresh() { kept_.clear(); }

 private:
  using Copies = std::vector<std::shared_ptr<Contained>>;

  // Runs each part in a thread of its own with this thread's modes (autocast, ...) and streams. The
  // outputs are on the first device.
  std::vector<at::Tensor> apply(const Copies& copies, const std::vector<at::Tensor>& parts) const {
    const at::ThreadLocalState modes;
    std::vector<std::future<at::Tensor>> running;
    running.reserve(parts.size());
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const c10::Stream stream =
          c10::impl::VirtualGuardImpl(devices_[i].type()).getStream(devices_[i]);
      running.push_back(std::async(std::launch::async, [&, i, stream] {
        const at::ThreadLocalStateGuard with_modes(modes);
        const c10::StreamGuard on_stream(stream);
        return copies[i]->forward(parts[i]);
      }));
    }
    for (const std::future<at::Tensor>& part : running) part.wait();
    std::vector<at::Tensor> outputs;
    outputs.reserve(parts.size());
    for (std::future<at::Tensor>& part : running)
      outputs.push_back(part.get().to(devices_.front()));
    return outputs;
  }

  std::shared_ptr<Contained> copy_on(const at::Device& device) const {
    auto copy = std::dynamic_pointer_cast<Contained>(module_->clone(device));
    if (copy == nullptr)
      throw InvalidArgumentError("DataParallel: clone() of the module gives another class");
    return copy;
  }

  // For a call with gradients.
  Copies new_copies(std::size_t count) const {
    Copies copies;
    for (std::size_t i = 0; i < count; ++i) copies.push_back(copy_on(devices_[i]));
    const std::vector<at::Tensor> parameters = module_->parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const bool learns = parameters[i].requires_grad();
      detail::AutogradPointer node;
      if (learns) {
        node =
            detail::make_node<detail::AutogradPointer, detail::AddGradientsOfCopies>(parameters[i]);
      }
      for (const std::shared_ptr<Contained>& copy : copies) {
        const at::Tensor own = copy->parameters()[i];
        if (learns) torch::autograd::set_history(own, node);
        if (!learns) own.set_requires_grad(false);
      }
    }
    return copies;
  }

  // For a call without gradients: the module itself on the first device, and copies on the others.
  const Copies& kept_copies() {
    bool fit = !kept_.empty();
    for (std::size_t i = 1; i < kept_.size() && fit; ++i) fit = update(*kept_[i], devices_[i]);
    if (fit) return kept_;
    Copies copies = {module_};
    for (std::size_t i = 1; i < devices_.size(); ++i) copies.push_back(copy_on(devices_[i]));
    return kept_ = std::move(copies);
  }

  // Gives the copy the module's values and training modes. Optimizers may change values without a
  // trace in the tensors' version counters, so all are copied. false: the module has other parts
  // than the copy.
  bool update(torch::nn::Module& copy, const at::Device& device) const {
    const auto each = [](auto own, auto its, const auto& act) {
      if (own.size() != its.size()) return false;
      for (std::size_t i = 0; i < own.size(); ++i) act(own[i], its[i]);
      return true;
    };
    return each(module_->parameters(), copy.parameters(),
                [&](const at::Tensor& own, at::Tensor& its) {
                  its.set_data(own.detach().to(device));
                }) &&
           // forward() may write to buffers, so each copy has its own.
           each(module_->buffers(), copy.buffers(),
                [&](const at::Tensor& own, at::Tensor& its) {
                  its.set_data(own.detach().to(device, own.scalar_type(), false, true));
                }) &&
           each(module_->modules(), copy.modules(),
                [](const auto& own, const auto& its) { its->train(own->is_training()); });
  }

  void take_buffers(const torch::nn::Module& copy) {
    const at::NoGradGuard no_grad;
    const std::vector<at::Tensor> own = module_->buffers();
    const std::vector<at::Tensor> its = copy.buffers();
    for (std::size_t i = 0; i < own.size(); ++i) own[i].copy_(its[i]);
  }

  std::vector<at::Device> devices_;
  std::shared_ptr<Contained> module_;
  Copies kept_;
};

}  // namespace kolo
