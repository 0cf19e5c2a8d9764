// An accelerator as the layers above its backend see it. It works asynchronously, on queues (CUDA's
// streams) that run their commands in order. A point marks a place in a queue.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "collectives/backend.hpp"
#include "core/clock.hpp"
#include "core/status.hpp"

namespace kolo {

// A place in a queue. Any thread may look at it.
class DevicePoint {
 public:
  virtual ~DevicePoint() = default;
  DevicePoint() = default;
  DevicePoint(const DevicePoint&) = delete;
  DevicePoint& operator=(const DevicePoint&) = delete;

  // Returns kDone once the device has reached this place, kWaiting before that, or kFailed.
  virtual Progress look(Status& status) const = 0;
};

// Times at which the device carried out a work, by the host's clock. The epoch: unknown.
struct DeviceTimes {
  Clock::time_point data_ready;  // the data that the work reads was ready
  Clock::time_point packed;      // that data was in the buffer, if there is one
  Clock::time_point begun;       // the collective itself began
  Clock::time_point reduced;     // the collective's result was ready
  Clock::time_point ended;
};

// The times of a timed work. The driving thread reads them once the work's results are ready.
class DeviceSpan {
 public:
  virtual ~DeviceSpan() = default;
  DeviceSpan() = default;
  DeviceSpan(const DeviceSpan&) = delete;
  DeviceSpan& operator=(const DeviceSpan&) = delete;

  virtual DeviceTimes times() const = 0;
};

// Carries out a group's collectives on a device. Its works only enqueue, and are done when
// everything is enqueued. Their data belongs to them until the device has reached leave()'s point.
// They are started in the order of their sequence numbers, each when the one before it is done,
// because ranks must enqueue in the same order.
class DeviceBackend : public Backend {
 public:
  // The queue on which collectives run and write their results: a cudaStream_t. Each group has its
  // own, because ranks may reach the collectives of two groups in different orders.
  virtual void* queue() const = 0;

  // Returns the work by which the ranks find each other before the first collective, or before the
  // first transfer with that peer (a rank of the group). Null in later calls. The work uses the
  // turn's part on the host.
  virtual std::unique_ptr<Work> preparation(Turn turn, std::optional<int> peer) = 0;

  // Called before a work starts: the work's commands come after these points. If `timed`, leave()
  // returns a span.
  virtual Status enter(std::span<const std::shared_ptr<DevicePoint>> ready, bool timed) = 0;
  // Called after the work. Returns the point at which the work's results are ready. The span is
  // null if the work was not timed.
  virtual Status leave(std::shared_ptr<DevicePoint>& results,
                       std::shared_ptr<DeviceSpan>& span) = 0;
  // Compares the device's clock with the host's again. Called while works are timed.
  virtual Status compare_clocks() = 0;

  // Returns an error that has occurred asynchronously, on the device or between ranks.
  virtual Status check() = 0;
};

// Any thread may call any function but make_backend() and abort(), which only the driving thread
// may call.
class Device {
 public:
  virtual ~Device() = default;
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  virtual int index() const = 0;

  // Whether commands of the queue are being captured into a graph. True also if that cannot be
  // determined.
  virtual bool captures(void* queue) const = 0;
  // Returns a point behind all commands of the queue so far. Fails while the queue is being
  // captured.
  virtual Status record(void* queue, std::shared_ptr<DevicePoint>& point) = 0;
  // Makes later commands of the queue wait for the point.
  virtual Status wait(void* queue, const DevicePoint& point) = 0;

  // Makes a backend whose ranks find each other over `host`, which has the same ranks and outlives
  // the result. Throws if the device fails.
  virtual std::unique_ptr<DeviceBackend> make_backend(Backend& host) = 0;
  // Ends the commands of all backends, so that nothing waits for them forever. Their results are
  // unspecified. Takes some seconds at most. The backends must not be used afterwards.
  virtual void abort() = 0;
};

}  // namespace kolo
