// Device memory for buckets, with which NCCL may work without copies of its own.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "collectives/nccl/communicator.hpp"
#include "core/thread_annotations.hpp"

namespace kolo::nccl {

// A group's. Used by who drives the engine.
class Buffers : public std::enable_shared_from_this<Buffers> {
 public:
  // `free_kept`: see Options.
  Buffers(int device, std::function<void()> free_kept)
      : device_(device), free_kept_(std::move(free_kept)) {}
  // No communicator knows of any any more.
  ~Buffers();
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;

  // Zeros, from where the stream is on. The last who refers to them, which any thread may be, must
  // not let go before the device has done with them. Throws where there is no memory.
  std::shared_ptr<std::byte[]> allocate(std::size_t bytes, cudaStream_t stream)
      KOLO_EXCLUDES(mutex_);

  // If a buffer begins there, the communicator, which has nothing else to do, knows it from now on.
  // Always the same one.
  Status make_known(const Communicator& communicator, const void* data);

  // Frees what nobody refers to any more. The communicator must have nothing else to do, or have
  // been aborted.
  Status free_unused(const Communicator& communicator) KOLO_EXCLUDES(mutex_);

 private:
  struct Known {
    std::size_t bytes = 0;
    void* handle = nullptr;  // NCCL's
    bool is_known = false;
  };

  void give_back(std::byte* data) KOLO_EXCLUDES(mutex_);
  std::vector<std::byte*> take_unused() KOLO_EXCLUDES(mutex_);

  const int device_;
  const std::function<void()> free_kept_;
  std::map<const void*, Known> made_;  // by address
  Mutex mutex_;
  std::vector<std::byte*> unused_ KOLO_GUARDED_BY(mutex_);
};

}  // namespace kolo::nccl
