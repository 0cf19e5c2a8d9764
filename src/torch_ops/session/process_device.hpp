// Connects LibTorch's streams and memory on this process's CUDA device with the engine. Needs no
// CUDA header: LibTorch's CUDA half registers what is used here when it is loaded.
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

// Returns the number of CUDA devices that this process sees. Loads LibTorch's CUDA half; returns 0
// if that fails, or in a build without CUDA. Any thread may call.
int usable_cuda_devices();

// The CUDA device on which this process reduces. Any thread may call.
class ProcessDevice {
 public:
  ProcessDevice(const Config& config, const Topology& topology);

  // Chooses the device's number, as LibTorch and CUDA count: the local rank, or the only visible
  // device.
  Status choose(int& index) const;

  // Returns the device on which the process reduces. If there is none yet, creates the one with the
  // given number or, without it, that of choose(). Fails if there is one with another number.
  Status find(std::optional<int> index, std::shared_ptr<Device>& device) KOLO_EXCLUDES(mutex_);

  // Returns this thread's current stream on the device with that number, if a later call may submit
  // the work on it: the process reduces on that device, and the stream is not being captured.
  std::optional<c10::Stream> open_stream(int index) KOLO_EXCLUDES(mutex_);

 private:
  const nccl::Options options_;
  const Topology topology_;
  Mutex mutex_;
  std::shared_ptr<Device> device_ KOLO_GUARDED_BY(mutex_);
};

// Returns the point that this thread's current stream has reached. Throws InvalidArgumentError
// while the stream is being captured into a graph.
std::shared_ptr<DevicePoint> point_on_device(Device& device);

// Notes that the operation's tensors are on the device, and have their values at the point.
void put_on_device(std::shared_ptr<DevicePoint> ready, Operation& operation);

// Makes the operation's callbacks work on its queue, and allocate memory for results there.
void finish_on_device(const std::shared_ptr<Device>& device, Operation& operation);

// Notes that this thread's current stream uses a tensor that another stream may have made:
// LibTorch's allocator does not reuse its memory before this stream is done. Does nothing for
// tensors on the host.
void use_on_device(const at::Tensor& tensor);

// Makes this thread's current stream, which must stay the same, wait for results of operations.
// Nothing else waits. Results of the same collective are waited for once.
class WaitsOnDevice {
 public:
  // Does nothing for an operation on the host. Releases the operation's tensors, so that a host
  // that runs ahead does not keep those of earlier steps.
  void wait(Device* device, Operation& operation);

 private:
  std::shared_ptr<DevicePoint> last_;
};

}  // namespace kolo
