#include "torch_ops/session/process_device.hpp"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>

#include "core/log.hpp"
#include "kolo/init.h"

namespace kolo {
namespace {

c10::Device torch_device(const Device& device) {
  return {c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(device.index())};
}

const c10::impl::DeviceGuardImplInterface& cuda() {
  return *c10::impl::getDeviceGuardImpl(c10::DeviceType::CUDA);
}

// Returns this thread's current stream.
c10::Stream current_stream(const Device& device) {
  return cuda().getStream(torch_device(device));
}

// Does the same as c10::cuda::getStreamFromExternal(), which is in LibTorch's CUDA half: a stream
// that LibTorch has not made is identified by its address.
c10::Stream stream_of(const Device& device, void* queue) {
  return c10::Stream(c10::Stream::UNSAFE, torch_device(device),
                     static_cast<c10::StreamId>(reinterpret_cast<std::intptr_t>(queue)));
}

// Loads LibTorch's CUDA half if the program is not linked with it. Returns the reason if it is not
// available; otherwise nothing.
const std::optional<std::string>& lack_of_cuda_half() {
  static const std::optional<std::string> lack = []() -> std::optional<std::string> {
    const auto is_there = [] { return c10::impl::hasDeviceGuardImpl(c10::DeviceType::CUDA); };
    if (is_there()) return std::nullopt;
    if (dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) == nullptr) {
      const char* const why = dlerror();  // NOLINT(concurrency-mt-unsafe): of this thread
      return why == nullptr ? "dlopen failed" : why;
    }
    if (is_there()) return std::nullopt;
    return "libtorch_cuda.so belongs to another LibTorch";
  }();
  return lack;
}

// Empties LibTorch's cache, which keeps the memory of freed tensors.
void free_kept() {
  auto* const allocator =
      dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(c10::DeviceType::CUDA));
  try {
    if (allocator != nullptr) allocator->emptyCache();
  } catch (const std::exception& error) {  // during a capture, say
    log::debug(error.what());
  }
}

int visible_devices() {
  return lack_of_cuda_half() ? 0 : static_cast<int>(cuda().deviceCount());
}

}  // namespace

int usable_cuda_devices() {
  return nccl::any_device() ? visible_devices() : 0;
}

ProcessDevice::ProcessDevice(const Config& config, const Topology& topology)
    : options_{config.share_device,
               topology.rank,
               {config.cuda_over_host.begin(), config.cuda_over_host.end()},
               config.cuda_in_stages,
               free_kept},
      topology_(topology) {
  // LibTorch checks only once whether there is CUDA (in a program's first backward(), say), and
  // keeps the answer. So init() loads its CUDA half.
  static_cast<void>(usable_cuda_devices());
}

Status ProcessDevice::choose(int& index) const {
  if (Status s = nccl::available(); !s.is_ok()) return s;
  const int visible = visible_devices();
  if (visible == 0) {
    const std::optional<std::string>& lack = lack_of_cuda_half();
    return Status::invalid_argument(
        std::string("rank ") + std::to_string(topology_.rank) + " sees no CUDA device" +
        (lack ? ", because LibTorch's CUDA half (libtorch_cuda.so) cannot be loaded: " + *lack
              : "") +
        "; look at CUDA_VISIBLE_DEVICES and `kolo doctor`, or use the CPU");
  }
  // The launcher may have made a single device visible to this rank.
  if (visible == 1 || topology_.local_rank < visible) {
    index = visible == 1 ? 0 : topology_.local_rank;
    return Status::ok();
  }
  if (options_.may_share) {
    index = topology_.local_rank % visible;
    return Status::ok();
  }
  return Status::invalid_argument(
      "there are " + std::to_string(topology_.local_size) + " ranks and " +
      std::to_string(visible) + " CUDA devices on the node of rank " +
      std::to_string(topology_.rank) +
      ": start at most one rank per device, or set KOLO_SHARE_DEVICE=1, which is slow");
}

Status ProcessDevice::find(std::optional<int> index, std::shared_ptr<Device>& device) {
  const MutexLock lock(mutex_);
  if (device_ != nullptr && index && *index != device_->index()) {
    return Status::invalid_argument(
        "the tensor is on cuda:" + std::to_string(*index) +
        ", but this rank reduces on cuda:" + std::to_string(device_->index()) +
        ", where its first one was; a rank has one device, that of "
        "kolo::local_device(), unless you choose another");
  }
  if (device_ == nullptr) {
    int chosen = 0;
    if (index) {
      chosen = *index;
    } else if (Status s = choose(chosen); !s.is_ok()) {
      return s;
    }
    Status status = nccl::make_device(chosen, options_, device_);
    if (!status.is_ok()) return status;
    // CUDA, too, ends at exit. Handlers run in reverse order, so this one runs first.
    static const int registered = std::atexit(shutdown);
    if (registered != 0)
      log::warning("atexit failed: call kolo::shutdown() before the program ends");
  }
  device = device_;
  return Status::ok();
}

std::optional<c10::Stream> ProcessDevice::open_stream(int index) {
  std::shared_ptr<Device> device;
  if (!find(index, device).is_ok()) return std::nullopt;
  const c10::Stream stream = current_stream(*device);
  if (device->captures(stream.native_handle())) return std::nullopt;
  return stream;
}

std::shared_ptr<DevicePoint> point_on_device(Device& device) {
  std::shared_ptr<DevicePoint> point;
  throw_if_error(device.record(current_stream(device).native_handle(), point));
  return point;
}

void put_on_device(std::shared_ptr<DevicePoint> ready, Operation& operation) {
  operation.on_device = std::make_unique<OperationOnDevice>();
  operation.on_device->ready = std::move(ready);
}

// The operation owns these functions, and calls them only while it lives.
void finish_on_device(const std::shared_ptr<Device>& device, Operation& operation) {
  if (operation.finish) {
    operation.finish = [device, &operation, finish = std::move(operation.finish)] {
      const c10::StreamGuard guard(stream_of(*device, operation.on_device->queue));
      finish();
    };
  }
  // Allocates results on the queue that writes them, after all earlier uses of their memory. A
  // stream that waits for them calls use_on_device().
  if (operation.make_result) {
    operation.make_result = [device, &operation, make = std::move(operation.make_result)](
                                std::size_t index, const std::vector<std::int64_t>& rows) {
      const c10::StreamGuard guard(stream_of(*device, operation.on_device->queue));
      return make(index, rows);
    };
  }
}

void use_on_device(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_cuda() || !tensor.has_storage()) return;
  cuda().recordDataPtrOnStream(tensor.storage().data_ptr(), cuda().getStream(tensor.device()));
}

void WaitsOnDevice::wait(Device* device, Operation& operation) {
  std::shared_ptr<DevicePoint> results = operation.results();
  if (results == nullptr) return;
  if (results != last_) {
    throw_if_error(device->wait(current_stream(*device).native_handle(), *results));
    last_ = std::move(results);
  }
  operation.let_go_behind_results();
}

}  // namespace kolo
