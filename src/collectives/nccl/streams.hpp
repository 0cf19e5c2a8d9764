// The device's queues that kolo has.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <utility>

#include "collectives/nccl/events.hpp"
#include "collectives/nccl/timing.hpp"

namespace kolo::nccl {

// A group's streams, of the highest priority: what packs tensors does not wait for the collective
// before. Copies for what the host carries out have two, one each way, for NCCL enqueues by itself
// on the reducing one.
class Streams {
 public:
  static Status create(std::shared_ptr<Events> events, std::unique_ptr<Streams>& streams);
  ~Streams();
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  int device() const { return events_->device(); }
  const std::shared_ptr<Events>& events() const { return events_; }
  cudaStream_t packing() const { return packing_; }
  cudaStream_t reducing() const { return reducing_; }

  // Later commands of the reducing stream wait for all commands of the packing stream so far.
  Status join();

  // Those of copies: made by the first call, which must come before the others.
  Status make_copying();
  cudaStream_t to_host() const { return to_host_; }
  cudaStream_t from_host() const { return from_host_; }

  // From now on mark() notes in a new span when the device comes to a place in a queue; without
  // begin_span(), or after take_span(), it does nothing.
  void begin_span();
  Status mark(std::shared_ptr<Point> WorkSpan::*what, cudaStream_t stream);
  std::shared_ptr<WorkSpan> take_span() { return std::move(span_); }
  Status compare_clocks();

 private:
  explicit Streams(std::shared_ptr<Events> events) : events_(std::move(events)) {}

  const std::shared_ptr<Events> events_;
  cudaStream_t packing_ = nullptr;
  cudaStream_t reducing_ = nullptr;
  cudaStream_t to_host_ = nullptr;
  cudaStream_t from_host_ = nullptr;
  std::shared_ptr<Timing> timing_;  // null before the first span
  std::shared_ptr<WorkSpan> span_;  // of the work that is being enqueued; null: not timed
};

}  // namespace kolo::nccl
