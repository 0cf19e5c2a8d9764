// An accelerator, as far as the layers above its backend see it. It works later, on queues (CUDA's
// streams) in which one thing comes after the other; a point says how far a queue is.
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

  // kWaiting, kDone when the device has come here, or kFailed.
  virtual Progress look(Status& status) const = 0;
};

// When the device carried a work out, by the host's clock. The epoch: it cannot be told.
struct DeviceTimes {
  Clock::time_point data_ready;  // what it reads was there
  Clock::time_point packed;      // in the buffer, if there is one
  Clock::time_point begun;       // the collective itself, whose turn it was
  Clock::time_point reduced;     // the collective's result was there
  Clock::time_point ended;
};

// The times of a work that was timed. The driving thread reads them when the work's results are
// there.
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
  // own: ranks may come to the collectives of two groups in different order.
  virtual void* queue() const = 0;

  // The work by which the ranks find each other before the first collective, or before the first
  // transfer with that peer (a rank of the group). Null in later calls. It uses the turn's part on
  // the host.
  virtual std::unique_ptr<Work> preparation(Turn turn, std::optional<int> peer) = 0;

  // Called before a work starts: the work's commands come after these points. If `timed`, leave()
  // returns a span.
  virtual Status enter(std::span<const std::shared_ptr<DevicePoint>> ready, bool timed) = 0;
  // Called after the work: returns the point at which its results are there. The span is null if
  // the work was not timed.
  virtual Status leave(std::shared_ptr<DevicePoint>& results,
                       std::shared_ptr<DeviceSpan>& span) = 0;
  // Compares the device's clock with the host's again. Called while works are timed.
  virtual Status compare_clocks() = 0;

  // Returns an error that has occurred since, on the device or between ranks.
  virtual Status check() = 0;
};

// Any thread may call it, but only the driving thread make_backend() and abort().
class Device {
 public:
  virtual ~Device() = default;
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  virtual int index() const = 0;

  // Whether commands of the queue are being captured into a graph, or that cannot be determined.
  virtual bool captures(void* queue) const = 0;
  // Returns a point behind all commands of the queue so far. Fails while it is captured.
  virtual Status record(void* queue, std::shared_ptr<DevicePoint>& point) = 0;
  // Later commands of the queue wait for the point.
  virtual Status wait(void* queue, const DevicePoint& point) = 0;

  // The ranks find each other over `host`, which has the same ranks and outlives the result. Throws
  // if the device fails.
  virtual std::unique_ptr<DeviceBackend> make_backend(Backend& host) = 0;
  // Ends the commands of all backends, so that nothing waits for them for ever; the results are
  // unspecified. Takes some seconds at most. The backends must not be used afterwards.
  virtual void abort() = 0;
};

}  // namespace kolo
