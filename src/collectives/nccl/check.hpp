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

// Makes a device the thread's current one while this object lives. CUDA's calls then make a context
// on no other device, and the default stream, which is null, is this device's. Afterwards the
// previous device becomes current again if it has a context; otherwise this one stays current.
// Calls made meanwhile do not break the capture of a graph, which the program may have begun on a
// stream of its own.
class OnDevice {
 public:
  explicit OnDevice(int index);
  ~OnDevice();
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  const Status& status() const { return status_; }

 private:
  int before_ = -1;  // -1: the current one stays
  cudaStreamCaptureMode capture_ =
      cudaStreamCaptureModeRelaxed;  // after the constructor: the previous mode
  Status status_;
};

}  // namespace kolo::nccl
