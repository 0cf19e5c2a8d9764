// Packing and unpacking of tensors on a device before and after a collective, on its two streams.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <unordered_map>
#include <utility>

#include "collectives/memory.hpp"
#include "collectives/nccl/streams.hpp"

namespace kolo::nccl {

// Used by the driving thread.
class DeviceMemory final : public Memory {
 public:
  DeviceMemory(std::shared_ptr<Streams> streams, std::function<void()> free_kept)
      : streams_(std::move(streams)), free_kept_(std::move(free_kept)) {}

  // Runs on the packing stream, after what was unpacked from the same place.
  Status put(std::span<const Piece> pieces, DType dtype, ReduceOp op, double factor) override;
  // take() and copy() run on the reducing stream.
  Status take(std::span<const Piece> pieces, DType dtype) override;
  Status copy(void* to, const void* from, std::size_t bytes) override;

  // Returns memory that is freed with its last reference, which must be kept until the device has
  // finished with the memory. The memory is not initialised: a fill could still be in flight then.
  // Throws if there is no memory.
  std::shared_ptr<std::byte[]> allocate(std::size_t bytes);

 private:
  Status get(void*& data, std::size_t bytes) const;

  const std::shared_ptr<Streams> streams_;
  const std::function<void()> free_kept_;  // see Options
  bool plain_ = false;                     // allocate() uses cudaMalloc()
  // By a buffer's address: the point at which its last contents had been unpacked.
  std::unordered_map<const std::byte*, std::shared_ptr<Point>> unpacked_;
};

}  // namespace kolo::nccl
