// Replaces the device in a build without CUDA.
#include "collectives/nccl/nccl.hpp"

namespace kolo::nccl {

Status available() {
  return Status::invalid_argument(
      "this kolo was built without CUDA; use tensor.cpu(), or build it with KOLO_CUDA=ON, which "
      "needs the CUDA toolkit and NCCL");
}

bool any_device() {
  return false;
}

Status make_device(int /*index*/, const Options& /*options*/, std::shared_ptr<Device>& /*device*/) {
  return available();
}

}  // namespace kolo::nccl
