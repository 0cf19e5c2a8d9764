#include "collectives/nccl/check.hpp"

#include <string>

namespace kolo::nccl {

Status cuda_status(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return Status::ok();
  static_cast<void>(cudaGetLastError());  // or the next check would find it, too
  std::string text = std::string(call) + ": " + cudaGetErrorString(code);
  if (code == cudaErrorMemoryAllocation) {
    text +=
        "; the device's memory is full: use smaller batches, or a smaller "
        "KOLO_CUDA_FUSION_THRESHOLD";
  }
  return Status::internal(std::move(text));
}

Status nccl_status(ncclResult_t code, const char* call, ncclComm_t comm) {
  if (code == ncclSuccess || code == ncclInProgress) return Status::ok();
  std::string text = std::string(call) + ": " + ncclGetErrorString(code);
  const char* const last = ncclGetLastError(comm);
  if (last != nullptr && *last != '\0') text += std::string(" (") + last + ")";
  text += "; NCCL_DEBUG=INFO tells more";
  if (code == ncclRemoteError) return Status::peer_lost(std::move(text));
  return Status::internal(std::move(text));
}

OnDevice::OnDevice(int index) {
  int now = -1;
  status_ = cuda_status(cudaThreadExchangeStreamCaptureMode(&capture_),
                        "cudaThreadExchangeStreamCaptureMode");
  if (status_.is_ok()) status_ = cuda_status(cudaGetDevice(&now), "cudaGetDevice");
  if (!status_.is_ok() || now == index) return;
  status_ = cuda_status(cudaSetDevice(index), "cudaSetDevice");
  if (status_.is_ok()) before_ = now;
}

// What fails here fails again at the next call, which looks.
OnDevice::~OnDevice() {
  if (before_ >= 0 && cudaSetDevice(before_) != cudaSuccess) static_cast<void>(cudaGetLastError());
  static_cast<void>(cudaThreadExchangeStreamCaptureMode(&capture_));
}

}  // namespace kolo::nccl
