// The device's queues that kolo has, and points in these and in others.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collectives/device.hpp"
#include "core/thread_annotations.hpp"

namespace kolo::nccl {

class Events;

// An event that was recorded. The last who refers to it gives it back to be recorded again.
class Point final : public DevicePoint {
 public:
  // Only of timed events it can be told when they were.
  enum class Kind { kUntimed = 0, kTimed = 1 };

  Point(std::shared_ptr<Events> events, Kind kind, cudaEvent_t event, cudaStream_t stream,
        std::uint64_t number);
  ~Point() override;

  Progress look(Status& status) const override;

  cudaEvent_t event() const { return event_; }
  // Where it was recorded, and the how manieth event of all that is: of two on one stream the one
  // with the higher number comes later.
  cudaStream_t stream() const { return stream_; }
  std::uint64_t number() const { return number_; }

 private:
  const std::shared_ptr<Events> events_;
  const Kind kind_;
  const cudaEvent_t event_;
  const cudaStream_t stream_;
  const std::uint64_t number_;
};

// Any thread.
class Events : public std::enable_shared_from_this<Events> {
 public:
  using Kind = Point::Kind;

  explicit Events(int device) : device_(device) {}
  // No point refers to it any more.
  ~Events();
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;

  int device() const { return device_; }
  Status record(cudaStream_t stream, std::shared_ptr<Point>& point, Kind kind = Kind::kUntimed)
      KOLO_EXCLUDES(mutex_);
  void give_back(cudaEvent_t event, Kind kind) KOLO_EXCLUDES(mutex_);

 private:
  Status take(Kind kind, cudaEvent_t& event) KOLO_EXCLUDES(mutex_);
  // The stream's, so that numbers on it are in its order.
  Mutex& order_of(cudaStream_t stream) KOLO_EXCLUDES(mutex_);

  const int device_;
  Mutex mutex_;
  std::unordered_map<cudaStream_t, Mutex> orders_ KOLO_GUARDED_BY(mutex_);
  std::array<std::vector<cudaEvent_t>, 2> free_ KOLO_GUARDED_BY(mutex_);  // by kind
  std::atomic<std::uint64_t> recorded_{0};
};

// What comes next on the stream comes after the point.
Status wait_for(cudaStream_t stream, const Point& point);
// After all that is on the other one now.
Status wait_for(cudaStream_t stream, cudaStream_t other, Events& events);

class WorkSpan;
class Timing;

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

  // What comes next on the reducing stream comes after all that is on the packing one.
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
