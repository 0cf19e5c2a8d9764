// Collectives of device tensors that the host carries out. Where it only moves values, over a
// transport that takes device memory, they are read and written where they lie. Else they are
// copied to pinned memory in pieces, each of which goes its way while the next ones are still being
// copied, and others back.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "collectives/backend.hpp"
#include "collectives/nccl/streams.hpp"

namespace kolo::nccl {

// Host memory that the device copies from and to by itself. It takes long to get, so it is kept.
// Used by who drives the engine.
class PinnedPool : public std::enable_shared_from_this<PinnedPool> {
 public:
  explicit PinnedPool(int device) : device_(device) {}
  // Nobody refers to any of it.
  ~PinnedPool();
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;

  // Goes back to the pool with the last who refers to it.
  Status take(std::size_t bytes, std::shared_ptr<std::byte[]>& memory);

 private:
  const int device_;
  std::multimap<std::size_t, std::byte*> free_;  // by size
};

// Makes the works of collectives whose data lie on the device. They are done when their results are
// on their way back, on the reducing stream.
class OverHost {
 public:
  // `host` outlives this, and is that of the same group.
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
  // The next turn on the host within the sequence: a work may take several.
  Turn next(Turn turn);

  const std::shared_ptr<Streams> streams_;
  Backend& host_;
  const std::size_t piece_bytes_;  // of whole elements
  const std::shared_ptr<PinnedPool> pool_;
  Turn next_;
};

}  // namespace kolo::nccl
