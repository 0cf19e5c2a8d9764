#include "kolo/mixed_precision.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>

#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kolo/agreement.h"
#include "kolo/error.h"
#include "kolo/init.h"

namespace kolo {
namespace {

void require(bool right, const char* name, double value, const char* range) {
  if (right) return;
  throw InvalidArgumentError(std::string("GradScaler: ") + name + " is " + std::to_string(value) +
                             "; it must be " + range);
}

// Returns the values of a dense or sparse gradient, for dividing them in place.
at::Tensor values_of(at::Tensor& gradient) {
  if (!gradient.is_sparse()) return gradient;
  gradient = gradient.coalesce();  // sums of duplicates may overflow
  return gradient._values();
}

}  // namespace

AutocastGuard::AutocastGuard(at::DeviceType device, at::ScalarType dtype, bool enabled)
    : device_(device),
      was_enabled_(at::autocast::is_autocast_enabled(device)),
      previous_dtype_(at::autocast::get_autocast_dtype(device)) {
  if (enabled && dtype != at::kHalf && dtype != at::kBFloat16) {
    throw InvalidArgumentError(std::string("AutocastGuard: the dtype is ") + c10::toString(dtype) +
                               "; it must be float16 or bfloat16");
  }
  at::autocast::set_autocast_enabled(device, enabled);
  if (enabled) at::autocast::set_autocast_dtype(device, dtype);
  at::autocast::increment_nesting();
}

AutocastGuard::~AutocastGuard() {
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, was_enabled_);
  at::autocast::set_autocast_dtype(device_, previous_dtype_);
}

GradScaler::GradScaler(const GradScalerOptions& options)
    : options_(options), scale_(options.init_scale()) {
  require(options.init_scale() > 0, "init_scale", options.init_scale(), "above 0");
  require(options.growth_factor() > 1, "growth_factor", options.growth_factor(), "above 1");
  require(options.backoff_factor() > 0 && options.backoff_factor() < 1, "backoff_factor",
          options.backoff_factor(), "between 0 and 1");
  require(options.growth_interval() > 0, "growth_interval",
          static_cast<double>(options.growth_interval()), "above 0");
}

at::Tensor GradScaler::scale(const at::Tensor& loss) const {
  return options_.enabled() ? loss * scale_ : loss;
}

bool GradScaler::agree_on(bool overflow) const {
  if (!is_initialized()) return overflow;
  return !agree(!overflow, OperationOptions().process_set(options_.process_set()));
}

void GradScaler::unscale_(torch::optim::Optimizer& optimizer) {
  if (!options_.enabled()) return;
  if (unscaled_.count(&optimizer) > 0) {
    throw InvalidArgumentError(
        "GradScaler: unscale_() or step() was called already for this optimizer; call update() "
        "after its step");
  }
  const at::NoGradGuard no_grad;
  std::map<std::pair<std::string, at::ScalarType>, std::vector<at::Tensor>> gradients;
  std::set<const at::TensorImpl*> seen;  // a parameter may be listed twice
  std::set<const void*> memory;
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      if (!parameter.grad().defined() || !seen.insert(parameter.unsafeGetTensorImpl()).second)
        continue;
      at::Tensor& gradient = parameter.mutable_grad();
      // autograd may give the same gradient to two parameters.
      if (!gradient.is_sparse() && gradient.numel() > 0 &&
          !memory.insert(gradient.data_ptr()).second) {
        gradient = gradient.clone();
      }
      const at::Tensor values = values_of(gradient);
      if (values.scalar_type() == at::kHalf) {
        throw InvalidArgumentError(
            "GradScaler: a parameter of float16 has a gradient of float16, which overflows when "
            "it is scaled; keep parameters in float32 and use AutocastGuard");
      }
      gradients[{values.device().str(), values.scalar_type()}].push_back(values);
    }
  }
  bool overflow = false;
  for (const auto& [key, values] : gradients) {
    const at::TensorOptions on_device =
        at::TensorOptions().dtype(at::kFloat).device(values[0].device());
    at::Tensor found = at::zeros({}, on_device);
    // The operation accepts the inverse only in float32.
    const at::Tensor inverse = at::full({}, 1.0 / scale_, on_device);
    at::_amp_foreach_non_finite_check_and_unscale_(values, found, inverse);
    overflow = overflow || found.item<float>() != 0;
  }
  unscaled_[&optimizer] = {agree_on(overflow), false};
}

bool GradScaler::step(torch::optim::Optimizer& optimizer) {
  if (options_.enabled()) {
    if (unscaled_.count(&optimizer) == 0) unscale_(optimizer);
    Unscaled& unscaled = unscaled_.at(&optimizer);
    if (std::exchange(unscaled.has_stepped, true)) {
      throw InvalidArgumentError(
          "GradScaler: step() was called already for this optimizer; call update() after the steps "
          "of all optimizers");
    }
    if (unscaled.overflow) return false;
  }
  optimizer.step();
  return true;
}

void GradScaler::update() {
  if (!options_.enabled()) return;
  if (unscaled_.empty()) {
    throw InvalidArgumentError("GradScaler: update() comes after step()");
  }
  bool overflow = false;
  for (const auto& [optimizer, unscaled] : unscaled_) overflow = overflow || unscaled.overflow;
  unscaled_.clear();
  ++steps_without_overflow_;
  if (overflow) {
    scale_ *= options_.backoff_factor();
    steps_without_overflow_ = 0;
  } else if (steps_without_overflow_ >= options_.growth_interval()) {
    scale_ *= options_.growth_factor();
    steps_without_overflow_ = 0;
  }
}

void GradScaler::save(torch::serialize::OutputArchive& archive) const {
  archive.write("scale", c10::IValue(scale_));
  archive.write("steps_without_overflow", c10::IValue(steps_without_overflow_));
}

void GradScaler::load(torch::serialize::InputArchive& archive) {
  c10::IValue value;
  archive.read("scale", value);
  const double scale = value.toDouble();
  archive.read("steps_without_overflow", value);
  const std::int64_t steps = value.toInt();
  require(std::isfinite(scale) && scale > 0, "the archive's scale", scale, "finite and above 0");
  require(steps >= 0, "the archive's steps_without_overflow", static_cast<double>(steps),
          "0 or more");
  steps_without_overflow_ = steps;
  scale_ = scale;
  unscaled_.clear();
}

}  // namespace kolo
