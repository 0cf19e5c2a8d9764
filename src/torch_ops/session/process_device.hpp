// The CUDA device of this process, between LibTorch, which has streams and memory there, and the
// engine. Needs no CUDA header: LibTorch's CUDA half registers what is used of it when it is
// loaded.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <memory>
#include <optional>

#include "collectives/device.hpp"
#include "collectives/nccl/nccl.hpp"
#include "core/config.hpp"
#include "core/thread_annotations.hpp"
#include "core/topology.hpp"
#include "engine/operation.hpp"

namespace kolo {

// The number of CUDA devices that this process sees; 0 in a build without CUDA, or if LibTorch's
// CUDA half, which it loads, cannot be loaded. Any thread.
int usable_cuda_devices();

// The CUDA device that this process reduces on. Any thread may call it.
class ProcessDevice {
 public:
  ProcessDevice(const Config& config, const Topology& topology);

  // Its number by LibTorch's and CUDA's count: that of the local rank, or the only one that the
  // process sees.
  Status choose(int& index) const;

  // The one that the process reduces on, which is made if there is none yet: of the number that is
  // given, which must be its number if there is one, or else that of choose().
  Status find(std::optional<int> index, std::shared_ptr<Device>& device) KOLO_EXCLUDES(mutex_);

  // This thread's current stream on the device of that number, if a later call may submit what is
  // put there: the process reduces on that device, and the stream is not captured.
  std::optional<c10::Stream> open_stream(int index) KOLO_EXCLUDES(mutex_);

 private:
  const nccl::Options options_;
  const Topology topology_;
  Mutex mutex_;
  std::shared_ptr<Device> device_ KOLO_GUARDED_BY(mutex_);
};

// Returns the point that this thread's current stream has reached. Throws InvalidArgumentError
// while the stream is captured into a graph.
std::shared_ptr<DevicePoint> point_on_device(Device& device);

// The operation's tensors are on the device, and have their values when that comes to the point.
void put_on_device(std::shared_ptr<DevicePoint> ready, Operation& operation);

// Makes the operation's callbacks work on its queue, from which they take memory for results, too.
void finish_on_device(const std::shared_ptr<Device>& device, Operation& operation);

// This thread's current stream works with the tensor, which may have been made on another one:
// LibTorch's allocator gives its memory to nobody else before that has gone on. Nothing on the
// host.
void use_on_device(const at::Tensor& tensor);

// This thread's current stream, which stays the same one, waits for the results of operations;
// nobody else does. Those that one collective has brought are waited for once.
class WaitsOnDevice {
 public:
  // For those of an operation on the host there is nothing to wait for. The operation lets go of
  // what it was given, so that a host that runs ahead keeps no tensors of former steps.
  void wait(Device* device, Operation& operation);

 private:
  std::shared_ptr<DevicePoint> last_;
};

}  // namespace kolo
