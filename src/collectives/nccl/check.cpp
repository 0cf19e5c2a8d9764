#include "collectives/nccl/check.hpp"

#include <string>

namespace kolo::nccl {
namespace {

// Whether the device has a context; also true if that is unknown. Making a device current creates a
// context there, which takes some hundred MiB of its memory. Only the driver knows whether there is
// one. 0 is its CUDA_SUCCESS.
bool has_context(int device) {
  using Ask = int (*)(int device, unsigned* flags, int* active);
  static const Ask ask = [] {
    constexpr const char* kName = "cuDevicePrimaryCtxGetState";
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
    constexpr unsigned kSince = 7000;
    const cudaError_t code =
        cudaGetDriverEntryPointByVersion(kName, &found, kSince, cudaEnableDefault, &result);
#else
    const cudaError_t code = cudaGetDriverEntryPoint(kName, &found, cudaEnableDefault, &result);
#endif
    if (code != cudaSuccess) static_cast<void>(cudaGetLastError());
    return code == cudaSuccess ? reinterpret_cast<Ask>(found) : nullptr;
  }();
  unsigned flags = 0;
  int active = 1;
  return ask == nullptr || ask(device, &flags, &active) != 0 || active != 0;
}

}  // namespace

Status cuda_status(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return Status::ok();
  static_cast<void>(cudaGetLastError());  // or the next check would find it, too
  std::string text = std::string(call) + ": " + cudaGetErrorString(code);
  if (code == cudaErrorMemoryAllocation) text += std::string("; ") + kFullMemory;
  return Status::internal(std::move(text));
}

Status nccl_status(ncclResult_t code, const char* call, ncclComm_t comm) {
  if (code == ncclSuccess || code == ncclInProgress) return Status::ok();
  std::string text = std::string(call) + ": " + ncclGetErrorString(code);
  const char* const last = ncclGetLastError(comm);
  if (last != nullptr && *last != '\0') text += std::string(" (") + last + ")";
  text += "; set NCCL_DEBUG=INFO for more details";
  if (code == ncclRemoteError) return Status::peer_lost(std::move(text));
  return Status::internal(std::move(text));
}

// Sets the device first, because any other call might make a context on the previous one.
OnDevice::OnDevice(int index) {
  int now = -1;
  status_ = cuda_status(cudaGetDevice(&now), "cudaGetDevice");
  if (status_.is_ok() && now != index) {
    status_ = cuda_status(cudaSetDevice(index), "cudaSetDevice");
    if (status_.is_ok()) before_ = now;
  }
  const cudaError_t code = cudaThreadExchangeStreamCaptureMode(&capture_);
  if (status_.is_ok()) status_ = cuda_status(code, "cudaThreadExchangeStreamCaptureMode");
}

// Ignores errors: what fails here fails again at the next call that is checked.
OnDevice::~OnDevice() {
  static_cast<void>(cudaThreadExchangeStreamCaptureMode(&capture_));
  if (before_ >= 0 && has_context(before_) && cudaSetDevice(before_) != cudaSuccess)
    static_cast<void>(cudaGetLastError());
}

}  // namespace kolo::nccl
