// Collectives of device tensors that the host carries out. If an operation only moves values, over
// a transport that takes device memory, the host reads and writes the tensors in place. Otherwise
// they are copied to pinned memory in pieces. The host works on one piece while later ones are
// still being copied to it, and earlier ones back.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "collectives/backend.hpp"
#include "collectives/nccl/streams.hpp"

namespace kolo::nccl {

// Pinned host memory, which the device reads and writes by itself. It takes long to get, so the
// pool keeps it. Used by the driving thread.
class PinnedPool : public std::enable_shared_from_this<PinnedPool> {
 public:
  explicit PinnedPool(int device) : device_(device) {}
  // Runs when nobody refers to its memory any more.
  ~PinnedPool();
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;

  // Takes memory that goes back to the pool with its last reference.
  Status take(std::size_t bytes, std::shared_ptr<std::byte[]>& memory);

 private:
  const int device_;
  std::multimap<std::size_t, std::byte*> free_;  // by size
};

// Makes the works of collectives whose data lie on the device. They are done when their results are
// on the way back, which the reducing stream waits for.
class OverHost {
 public:
  // `host` belongs to the same group, and outlives the object.
  OverHost(std::shared_ptr<Streams> streams, Backend& host, std::size_t piece_bytes)
      : streams_(std::move(streams)),
        host_(host),
        piece_bytes_(piece_bytes),
        pool_(std::make_shared<PinnedPool>(streams_->device())) {}

  std::unique_ptr<Work> make(Turn turn, Collective collective);

 private:
  std::unique_ptr<Work> make_one(Turn turn, const collective::Allreduce& one);
  std::unique_ptr<Work> make_one(Turn turn, const collective::Broadcast& one);
  std::unique_ptr<Work> make_one(Turn turn, collective::Allgather& one);
  std::unique_ptr<Work> make_one(Turn turn, const collective::Alltoall& one);
  std::unique_ptr<Work> make_one(Turn turn, collective::Reducescatter& one);
  std::unique_ptr<Work> make_one(Turn turn, const collective::Transfer& one);
  std::unique_ptr<Work> make_one(Turn turn, const collective::ReadClock& one);
  // Returns the next turn on the host within the sequence. A work may take several.
  Turn next(Turn turn);

  const std::shared_ptr<Streams> streams_;
  Backend& host_;
  const std::size_t piece_bytes_;  // of whole elements
  const std::shared_ptr<PinnedPool> pool_;
  Turn next_;
};

}  // namespace kolo::nccl
