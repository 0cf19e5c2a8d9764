// When the device came to what: its clock, which events read, against the host's.
#pragma once

#include <memory>

#include "collectives/nccl/events.hpp"
#include "core/clock.hpp"

namespace kolo::nccl {

// Used by who drives the engine.
class Timing {
 public:
  explicit Timing(std::shared_ptr<Events> events) : events_(std::move(events)) {}
  ~Timing();
  Timing(const Timing&) = delete;
  Timing& operator=(const Timing&) = delete;

  // Never waits. Compares the clocks now and then: puts an event into a stream in which nothing
  // else is, and sees it there at a later call.
  Status compare();

  // When the device came to a timed point, which it has. The clock's epoch before the first
  // comparison has succeeded.
  Clock::time_point when(const Point& point) const;

 private:
  // The device was at the point when the host had that time, give or take the error.
  struct Comparison {
    std::shared_ptr<Point> point;  // null: none
    Clock::time_point at;
    Clock::duration error{};
  };

  const std::shared_ptr<Events> events_;
  cudaStream_t idle_ = nullptr;
  Comparison begun_;  // `at` is when the event was put there
  Comparison best_;
};

// When a work was carried out.
class WorkSpan final : public DeviceSpan {
 public:
  explicit WorkSpan(std::shared_ptr<Timing> timing) : timing_(std::move(timing)) {}

  DeviceTimes times() const override;

  // Null: not noted.
  std::shared_ptr<Point> data_ready;
  std::shared_ptr<Point> packed;
  std::shared_ptr<Point> begun;
  std::shared_ptr<Point> reduced;
  std::shared_ptr<Point> ended;

 private:
  const std::shared_ptr<Timing> timing_;
};

}  // namespace kolo::nccl
