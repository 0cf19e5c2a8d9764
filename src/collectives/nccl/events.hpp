// Points in the device's queues.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "collectives/device.hpp"
#include "core/thread_annotations.hpp"

namespace kolo::nccl {

class Events;

// A recorded event. The last owner returns it for reuse.
class Point final : public DevicePoint {
 public:
  // Only timed events have a time that can be read.
  enum class Kind { kUntimed = 0, kTimed = 1 };

  Point(std::shared_ptr<Events> events, Kind kind, cudaEvent_t event, cudaStream_t stream,
        std::uint64_t number);
  ~Point() override;

  Progress look(Status& status) const override;

  cudaEvent_t event() const { return event_; }
  // The stream it was recorded on, and its sequence number: of two events on one stream, the one
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

// Records points, and reuses their events. Any thread may call it.
class Events : public std::enable_shared_from_this<Events> {
 public:
  using Kind = Point::Kind;

  explicit Events(int device) : device_(device) {}
  // Runs when no point refers to the object any more.
  ~Events();
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;

  int device() const { return device_; }
  Status record(cudaStream_t stream, std::shared_ptr<Point>& point, Kind kind = Kind::kUntimed)
      KOLO_EXCLUDES(mutex_);
  void give_back(cudaEvent_t event, Kind kind) KOLO_EXCLUDES(mutex_);

 private:
  Status take(Kind kind, cudaEvent_t& event) KOLO_EXCLUDES(mutex_);
  // Returns the stream's lock, which keeps the numbers of its points in the stream's order.
  Mutex& order_of(cudaStream_t stream) KOLO_EXCLUDES(mutex_);

  const int device_;
  Mutex mutex_;
  std::unordered_map<cudaStream_t, Mutex> orders_ KOLO_GUARDED_BY(mutex_);
  std::array<std::vector<cudaEvent_t>, 2> free_ KOLO_GUARDED_BY(mutex_);  // by kind
  std::atomic<std::uint64_t> recorded_{0};
};

// Makes later work on the stream wait for the point.
Status wait_for(cudaStream_t stream, const Point& point);
// Makes later work on the stream wait for all work that is on the other stream now.
Status wait_for(cudaStream_t stream, cudaStream_t other, Events& events);

}  // namespace kolo::nccl
