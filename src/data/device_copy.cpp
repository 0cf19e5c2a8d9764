#include "data/device_copy.hpp"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace kolo::data {
namespace {

template <class Function>
Batch changed(const Batch& batch, const Function& function) {
  return {function(batch.data), batch.target.defined() ? function(batch.target) : at::Tensor()};
}

}  // namespace

DeviceCopy::DeviceCopy(at::Device device)
    : stream_(c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device)) {}

Batch DeviceCopy::operator()(const Batch& batch) const {
  const c10::DeviceGuard on_device(stream_.device());
  const c10::StreamGuard in_stream(stream_);
  // A copy from unpinned memory would block this thread and the device's queue.
  const bool can_pin = at::globalContext().hasCUDA();
  const Batch pinned = changed(batch, [&](const at::Tensor& tensor) {
    return can_pin && tensor.is_cpu() ? tensor.pin_memory() : tensor;
  });
  Batch copied = changed(pinned, [&](const at::Tensor& tensor) {
    return tensor.to(stream_.device(), /*non_blocking=*/true);
  });
  stream_.synchronize();
  return copied;
}

Batch to_device(const Batch& batch, at::Device device) {
  return changed(batch, [&](const at::Tensor& tensor) { return tensor.to(device); });
}

void use_in_current_stream(const Batch& batch) {
  for (const at::Tensor& tensor : {batch.data, batch.target}) {
    if (!tensor.defined() || tensor.is_cpu()) continue;
    const c10::impl::VirtualGuardImpl device(tensor.device().type());
    device.recordDataPtrOnStream(tensor.storage().data_ptr(), device.getStream(tensor.device()));
  }
}

}  // namespace kolo::data
