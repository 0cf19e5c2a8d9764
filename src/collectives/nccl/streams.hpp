// kolo's queues on the device.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <utility>

#include "collectives/nccl/events.hpp"
#include "collectives/nccl/timing.hpp"

namespace kolo::nccl {

// A group's streams, all of the highest priority. Packing has a stream of its own, so that it does
// not wait for the previous collective. Copies for operations over the host have two, one each way,
// because NCCL itself enqueues on the reducing stream.
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

  // Makes later commands of the reducing stream wait for all commands of the packing stream so far.
  Status join();

  // Makes the streams for copies, unless they exist. Must be called before to_host() and
  // from_host().
  Status make_copying();
  cudaStream_t to_host() const { return to_host_; }
  cudaStream_t from_host() const { return from_host_; }

  // From now on, mark() records in a new span when the device reaches a place in a queue. Without
  // begin_span(), or after take_span(), mark() does nothing.
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
