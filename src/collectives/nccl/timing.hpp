// Converts the device's clock, which events read, to the host's.
#pragma once

#include <memory>

#include "collectives/nccl/events.hpp"
#include "core/clock.hpp"

namespace kolo::nccl {

// Used by the driving thread.
class Timing {
 public:
  explicit Timing(std::shared_ptr<Events> events) : events_(std::move(events)) {}
  ~Timing();
  Timing(const Timing&) = delete;
  Timing& operator=(const Timing&) = delete;

  // Compares the clocks now and then, and never waits: it puts an event into an otherwise empty
  // stream, and finds it complete at a later call.
  Status compare();

  // Returns when the device reached a timed point, which it must have reached. The clock's epoch if
  // CUDA fails, or before the first comparison has succeeded.
  Clock::time_point when(const Point& point) const;

 private:
  // The device reached the point at the host's time `at`, give or take the error.
  struct Comparison {
    std::shared_ptr<Point> point;  // null: none
    Clock::time_point at;
    Clock::duration error{};
  };

  const std::shared_ptr<Events> events_;
  cudaStream_t idle_ = nullptr;
  Comparison begun_;  // `at`: when the event was enqueued
  Comparison best_;
};

// Records when a work was carried out.
class WorkSpan final : public DeviceSpan {
 public:
  explicit WorkSpan(std::shared_ptr<Timing> timing) : timing_(std::move(timing)) {}

  DeviceTimes times() const override;

  // Null: not recorded.
  std::shared_ptr<Point> data_ready;
  std::shared_ptr<Point> packed;
  std::shared_ptr<Point> begun;
  std::shared_ptr<Point> reduced;
  std::shared_ptr<Point> ended;

 private:
  const std::shared_ptr<Timing> timing_;
};

}  // namespace kolo::nccl
