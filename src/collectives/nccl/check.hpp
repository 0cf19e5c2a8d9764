// Return codes of CUDA and NCCL become Statuses here and nowhere else.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "core/status.hpp"

namespace kolo::nccl {

// The remedy for errors that a full device can cause.
inline constexpr const char* kFullMemory =
    "the device's memory may be full: use smaller batches, or a smaller KOLO_CUDA_FUSION_THRESHOLD";

// `call`: the function that returned the code, for the message.
Status cuda_status(cudaError_t code, const char* call);

// ncclInProgress is no failure: see Communicator. `comm` may be null.
Status nccl_status(ncclResult_t code, const char* call, ncclComm_t comm = nullptr);

// Makes a device the thread's current one, as long as this lives: then CUDA's calls make a context
// nowhere else, and its default stream, which is null, is that device's. The one before becomes
// current again if it has a context; else the thread stays. What is called meanwhile does not break
// the capture of a graph, which the program may have begun on a stream of its own.
class OnDevice {
 public:
  explicit OnDevice(int index);
  ~OnDevice();
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  const Status& status() const { return status_; }

 private:
  int before_ = -1;  // -1: is to stay
  cudaStreamCaptureMode capture_ =
      cudaStreamCaptureModeRelaxed;  // after the constructor: before it
  Status status_;
};

}  // namespace kolo::nccl
