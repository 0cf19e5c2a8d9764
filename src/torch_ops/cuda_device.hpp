// The CUDA device of this process, between LibTorch, which has streams and memory there, and the
// engine. Needs no CUDA header: LibTorch's CUDA half registers what is used of it when it is
// loaded.
#pragma once

#include <memory>
#include <optional>

#include "collectives/device.hpp"
#include "collectives/nccl/nccl.hpp"
#include "coordinator/operation.hpp"
#include "core/config.hpp"
#include "core/thread_annotations.hpp"
#include "core/topology.hpp"

namespace kolo {

// Any thread.
class CudaDevice {
 public:
  CudaDevice(const Config& config, const Topology& topology)
      : options_{config.share_device,
                 topology.rank,
                 {config.cuda_over_host.begin(), config.cuda_over_host.end()}},
        topology_(topology) {}

  // Its number by LibTorch's and CUDA's count: that of the local rank, or the only one that the
  // process sees.
  Status choose(int& index) const;

  // The one that the process reduces on, which is made if there is none yet: of the number that is
  // given, which must be its number if there is one, or else that of choose().
  Status find(std::optional<int> index, std::shared_ptr<Device>& device) KOLO_EXCLUDES(mutex_);

 private:
  const nccl::Options options_;
  const Topology topology_;
  Mutex mutex_;
  std::shared_ptr<Device> device_ KOLO_GUARDED_BY(mutex_);
};

// The operation's tensors are on the device: notes when they will have their values, which is when
// this thread's current stream comes here. Throws InvalidArgumentError while that is captured into
// a graph.
void put_on_device(Device& device, Operation& operation);

// What the operation does with tensors when it runs happens on its queue; memory for results is
// that of this thread's current stream.
void finish_on_device(const std::shared_ptr<Device>& device, Operation& operation);

// This thread's current stream waits for the results; nobody else does.
void wait_on_device(Device& device, const Operation& operation);

}  // namespace kolo
