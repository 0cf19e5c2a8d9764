#include "trainer/trainer_options.hpp"

#include <c10/core/ScalarType.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

#include "kolo/device.h"
#include "kolo/error.h"
#include "torch_ops/session/process_device.hpp"

namespace kolo::trainer {
namespace {

[[noreturn]] void refuse(const std::string& option, const std::string& value,
                         const std::string& allowed) {
  throw InvalidArgumentError("TrainerOptions: " + option + " is " + value + "; it must be " +
                             allowed);
}

void at_least(std::int64_t least, const char* option, std::int64_t value) {
  if (value < least) refuse(option, std::to_string(value), "at least " + std::to_string(least));
}

c10::DeviceIndex own_gpu(const TrainerOptions& options) {
  return static_cast<c10::DeviceIndex>(options.distributed() ? local_device() : 0);
}

}  // namespace

void check(const TrainerOptions& options) {
  at_least(0, "epochs", options.epochs());
  at_least(1, "batch_size", options.batch_size());
  at_least(0, "valid_batch_size", options.valid_batch_size());
  at_least(0, "workers", options.workers());
  at_least(1, "accumulate", options.accumulate());
  if (!(options.clip_grad_norm() >= 0) || std::isinf(options.clip_grad_norm()))
    refuse("clip_grad_norm", std::to_string(options.clip_grad_norm()), "0, or a norm");
  const at::ScalarType precision = options.precision();
  if (precision != at::kFloat && precision != at::kBFloat16 && precision != at::kHalf)
    refuse("precision", c10::toString(precision), "at::kFloat, at::kBFloat16 or at::kHalf");
}

at::Device device_of(const TrainerOptions& options) {
  const std::string& name = options.device();
  if (name == "cpu") return at::kCPU;
  if (name == "auto" && usable_cuda_devices() == 0) return at::kCPU;
  if (name == "auto" || name == "cuda") return {at::kCUDA, own_gpu(options)};
  std::optional<at::Device> device;
  try {
    device = at::Device(name);
  } catch (const c10::Error&) {
    device.reset();
  }
  if (!device || !(device->is_cpu() || device->is_cuda()))
    refuse("device", "\"" + name + "\"", "auto, cpu, cuda, or one of several GPUs, such as cuda:1");
  const int usable = usable_cuda_devices();
  if (device->is_cuda() && device->index() >= usable) {
    refuse("device", "\"" + name + "\"",
           "one of this process's " + std::to_string(usable) + " GPUs, counted from 0");
  }
  return *device;
}

}  // namespace kolo::trainer
