#include "collectives/nccl/buffers.hpp"

#include <nccl.h>

#include <algorithm>
#include <string>
#include <utility>

#include "collectives/nccl/check.hpp"
#include "core/log.hpp"

namespace kolo::nccl {
namespace {

// The process may be ending, and CUDA gone before this.
void free_buffer(int device, std::byte* data) {
  const OnDevice here(device);
  const Status status = nccl_status(ncclMemFree(data), "ncclMemFree");
  if (!status.is_ok()) log::debug(status.message());
}

}  // namespace

Buffers::~Buffers() {
  for (std::byte* data : take_unused()) free_buffer(device_, data);
}

std::shared_ptr<std::byte[]> Buffers::allocate(std::size_t bytes, cudaStream_t stream) {
  const OnDevice here(device_);
  throw_if_error(here.status());
  bytes = std::max<std::size_t>(bytes, 1);
  void* memory = nullptr;
  ncclResult_t code = ncclMemAlloc(&memory, bytes);
  if (code != ncclSuccess && free_kept_) {
    static_cast<void>(cudaGetLastError());
    free_kept_();
    code = ncclMemAlloc(&memory, bytes);
  }
  throw_if_error(
      nccl_status(code, ("ncclMemAlloc of " + std::to_string(bytes) + " bytes").c_str()));
  auto* const data = static_cast<std::byte*>(memory);
  made_[data] = {bytes};
  std::shared_ptr<std::byte[]> buffer(
      data, [all = weak_from_this(), device = device_](std::byte* returned) {
        const std::shared_ptr<Buffers> still_there = all.lock();
        if (still_there != nullptr) return still_there->give_back(returned);
        free_buffer(device, returned);
      });
  throw_if_error(cuda_status(cudaMemsetAsync(data, 0, bytes, stream), "cudaMemsetAsync"));
  return buffer;
}

Status Buffers::make_known(const Communicator& communicator, const void* data) {
  const auto found = made_.find(data);
  if (found == made_.end() || std::exchange(found->second.is_known, true)) return Status::ok();
  return nccl_status(ncclCommRegister(communicator.get(), const_cast<void*>(data),
                                      found->second.bytes, &found->second.handle),
                     "ncclCommRegister", communicator.get());
}

// A communicator that was aborted knows of nothing any more.
Status Buffers::free_unused(const Communicator& communicator) {
  Status status;
  for (std::byte* data : take_unused()) {
    const auto known = made_.extract(data);
    if (known.mapped().is_known && communicator.get() != nullptr) {
      const OnDevice here(device_);
      const Status forgotten =
          nccl_status(ncclCommDeregister(communicator.get(), known.mapped().handle),
                      "ncclCommDeregister", communicator.get());
      if (status.is_ok()) status = forgotten;
    }
    free_buffer(device_, data);
  }
  return status;
}

void Buffers::give_back(std::byte* data) {
  const MutexLock lock(mutex_);
  unused_.push_back(data);
}

std::vector<std::byte*> Buffers::take_unused() {
  const MutexLock lock(mutex_);
  return std::exchange(unused_, {});
}

}  // namespace kolo::nccl
