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

  // On the packing stream, behind what was unpacked from the same place.
  Status put(std::span<const Piece> pieces, DType dtype, ReduceOp op, double factor) override;
  // On the reducing stream, like what follows.
  Status take(std::span<const Piece> pieces, DType dtype) override;
  Status copy(void* to, const void* from, std::size_t bytes) override;

  // Freed when nobody refers to it, who must not before the device has done with it. Not
  // initialised: a fill could still be on its way then. Throws where there is no memory.
  std::shared_ptr<std::byte[]> allocate(std::size_t bytes);

 private:
  Status get(void*& data, std::size_t bytes) const;

  const std::shared_ptr<Streams> streams_;
  const std::function<void()> free_kept_;  // see Options
  bool plain_ = false;                     // allocate() does without ncclMemAlloc()
  // By a buffer's place: when what was in it had been unpacked.
  std::unordered_map<const std::byte*, std::shared_ptr<Point>> unpacked_;
};

}  // namespace kolo::nccl
