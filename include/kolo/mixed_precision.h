// Mixed precision: training in float16 and bfloat16. Provides the two classes that Python adds to
// LibTorch's kernels.
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

// While a guard lives, operations of this thread on the device type compute in `dtype` where that
// is safe, as in Python's torch.autocast. Call backward() after the guard is destroyed. Guards may
// be nested.
class [[nodiscard]] AutocastGuard {
 public:
  // `dtype`: float16 or bfloat16, otherwise InvalidArgumentError. If `enabled` is false, turns
  // autocast off, also inside another guard.
  AutocastGuard(at::DeviceType device, at::ScalarType dtype, bool enabled = true);
  // Restores the previous settings. The outermost guard also drops the cached casts of weights.
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
  TORCH_ARG(double, init_scale) = 65536;    // initial loss scale, above 0
  TORCH_ARG(double, growth_factor) = 2;     // factor by which the scale grows, above 1
  TORCH_ARG(double, backoff_factor) = 0.5;  // factor by which it shrinks, between 0 and 1
  TORCH_ARG(std::int64_t,
            growth_interval) = 2000;  // steps in a row without overflow before it grows
  TORCH_ARG(bool, enabled) = true;    // false: gradients are not scaled, and step() always steps
  TORCH_ARG(ProcessSet, process_set) = ProcessSet();  // the ranks that train together
};

// Scales the loss, so that small gradients do not become zero in float16, and skips a step on all
// ranks if a gradient of any rank has overflowed to infinity or NaN. Micikevicius and others 2018,
// https://arxiv.org/abs/1710.03740. Without kolo::init() it works for one process. One thread at a
// time. Checkpoint::add() accepts it.
class GradScaler {
 public:
  // Throws InvalidArgumentError for options that are out of range.
  explicit GradScaler(const GradScalerOptions& options = {});

  // Returns the loss times the scale.
  at::Tensor scale(const at::Tensor& loss) const;
  // Divides the gradients of the optimizer's parameters by the scale, in place, and checks whether
  // all gradients of all ranks are finite. Collective. step() calls it if the program has not.
  // Throws InvalidArgumentError for a second call before update(), and for float16 gradients, whose
  // parameters should be float32.
  void unscale_(torch::optim::Optimizer& optimizer);
  // Calls optimizer.step(), unless a gradient on any rank is not finite. Collective. Returns
  // whether it stepped. Throws InvalidArgumentError for a second call before update().
  bool step(torch::optim::Optimizer& optimizer);
  // Adapts the scale to whether steps were skipped. Call it once in each iteration, after step() of
  // all optimizers; InvalidArgumentError if no step() came before.
  void update();

  // The current scale; 1 if the scaler is not enabled.
  double get_scale() const { return options_.enabled() ? scale_ : 1.0; }
  // Writes the scale, and the number of steps since its last change.
  void save(torch::serialize::OutputArchive& archive) const;
  // Reads the scale and the number of steps. Throws c10::Error if they are missing, and
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
