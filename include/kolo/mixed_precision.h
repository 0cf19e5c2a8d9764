// Training in float16 and bfloat16: LibTorch has the kernels, and these are the two classes that
// Python adds.
//
//   kolo::GradScaler scaler;                       // for float16; bfloat16 needs none
//   for (auto& batch : *loader) {
//     optimizer.zero_grad();
//     torch::Tensor loss;
//     {
//       const kolo::AutocastGuard autocast(at::kCUDA, at::kHalf);
//       loss = torch::nll_loss(net(batch.data), batch.target);
//     }
//     scaler.scale(loss).backward();
//     scaler.unscale_(optimizer);  // only before what looks at gradients, such as the next line
//     torch::nn::utils::clip_grad_norm_(net->parameters(), 1.0);
//     scaler.step(optimizer);
//     scaler.update();
//   }
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <kolo/process_set.h>
#include <torch/arg.h>
#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>

#include <cstdint>
#include <map>

namespace kolo {

// While it lives, operations of this thread on the device type compute in `dtype` where that is
// safe, as within Python's torch.autocast. Call backward() when it has ended. Guards may be nested.
class [[nodiscard]] AutocastGuard {
 public:
  // `dtype`: float16 or bfloat16, else InvalidArgumentError. If `enabled` is false, turns autocast
  // off, also inside another guard.
  AutocastGuard(at::DeviceType device, at::ScalarType dtype, bool enabled = true);
  // Restores what held before. The outermost one also forgets the weights that were cast.
  ~AutocastGuard();
  AutocastGuard(const AutocastGuard&) = delete;
  AutocastGuard& operator=(const AutocastGuard&) = delete;

 private:
  const at::DeviceType device_;
  const bool was_enabled_;
  const at::ScalarType previous_dtype_;
};

// Options of GradScaler; the defaults are Python's.
struct GradScalerOptions {
  TORCH_ARG(double, init_scale) = 65536;    // the first factor, above 0
  TORCH_ARG(double, growth_factor) = 2;     // above 1: the factor grows by it
  TORCH_ARG(double, backoff_factor) = 0.5;  // between 0 and 1: it shrinks by it
  TORCH_ARG(std::int64_t,
            growth_interval) = 2000;  // steps in a row without overflow before it grows
  TORCH_ARG(bool, enabled) = true;    // false: the scaler does nothing but step
  TORCH_ARG(ProcessSet, process_set) = ProcessSet();  // the ranks that train together
};

// Scales the loss, so that small gradients do not become zero in float16, and skips the steps whose
// gradients have overflowed: on all ranks together, whichever rank has an infinity or NaN.
// Micikevicius and others 2018, https://arxiv.org/abs/1710.03740. Without kolo::init() it works for
// one process. One thread at a time. Checkpoint::add() takes it.
class GradScaler {
 public:
  // Throws InvalidArgumentError for options that are out of range.
  explicit GradScaler(const GradScalerOptions& options = {});

  // The loss times the factor.
  at::Tensor scale(const at::Tensor& loss) const;
  // Divides the gradients of the optimizer's parameters by the factor, in place, and finds out
  // whether one of any rank's is not finite. Collective. step() calls it if the program has not.
  // Throws InvalidArgumentError for a second call before update(), and for float16 gradients, whose
  // parameters should be float32.
  void unscale_(torch::optim::Optimizer& optimizer);
  // optimizer.step(), unless a gradient on any rank was not finite. Collective. Returns whether it
  // stepped. Throws InvalidArgumentError for a second call before update().
  bool step(torch::optim::Optimizer& optimizer);
  // Adapts the factor to whether steps were skipped. To be called after the steps of all
  // optimizers, in each iteration; InvalidArgumentError if there was none.
  void update();

  // The factor.
  double get_scale() const { return options_.enabled() ? scale_ : 1.0; }
  // Writes the factor, and how many steps were made since it changed.
  void save(torch::serialize::OutputArchive& archive) const;
  // Reads the factor and the number. Throws c10::Error if they are missing, and
  // InvalidArgumentError if they are out of range.
  void load(torch::serialize::InputArchive& archive);

 private:
  // The state of an optimizer whose gradients were divided since update().
  struct Unscaled {
    bool overflow = false;  // on any rank
    bool has_stepped = false;
  };

  bool agree_on(bool overflow) const;

  const GradScalerOptions options_;
  double scale_;
  std::int64_t steps_without_overflow_ = 0;
  std::map<const torch::optim::Optimizer*, Unscaled> unscaled_;
};

}  // namespace kolo
