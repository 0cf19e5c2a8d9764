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

// What a work that was timed leaves. Asked by who drives the engine, when the work's results are
// there.
class DeviceSpan {
 public:
  virtual ~DeviceSpan() = default;
  DeviceSpan() = default;
  DeviceSpan(const DeviceSpan&) = delete;
  DeviceSpan& operator=(const DeviceSpan&) = delete;

  virtual DeviceTimes times() const = 0;
};

// What carries out a group's collectives on a device. Its works only enqueue: they are done when
// that is done, and what they read and write is theirs until the device has come to leave()'s
// point. They are started in the order of their sequence numbers, each when the one before it is
// done, for ranks must enqueue in the same order.
class DeviceBackend : public Backend {
 public:
  // The queue on which collectives run and write their results: a cudaStream_t. Each group has its
  // own: ranks may come to the collectives of two groups in different order.
  virtual void* queue() const = 0;

  // What has to be done before the first collective, or before the first transfer with that peer (a
  // rank of the group): to find the others. Null after that was asked for once. It uses the turn's
  // part on the host.
  virtual std::unique_ptr<Work> preparation(Turn turn, std::optional<int> peer) = 0;

  // Before a work starts: what it enqueues comes after these points. If it is `timed`, leave()
  // gives a span.
  virtual Status enter(std::span<const std::shared_ptr<DevicePoint>> ready, bool timed) = 0;
  // After it: where its results are there; the span is null if it was not timed.
  virtual Status leave(std::shared_ptr<DevicePoint>& results,
                       std::shared_ptr<DeviceSpan>& span) = 0;
  // While works are timed: keeps the device's clock compared with the host's.
  virtual Status compare_clocks() = 0;

  // What has gone wrong since, on the device or between ranks.
  virtual Status check() = 0;
};

// Any thread, but make_backend() and abort(), which are for who drives the engine.
class Device {
 public:
  virtual ~Device() = default;
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  virtual int index() const = 0;

  // Whether what is put into the queue is being captured into a graph, or cannot be told.
  virtual bool captures(void* queue) const = 0;
  // Where a queue is now: what has been put into it comes before. Fails while it is captured.
  virtual Status record(void* queue, std::shared_ptr<DevicePoint>& point) = 0;
  // What is put into the queue from now on comes after the point.
  virtual Status wait(void* queue, const DevicePoint& point) = 0;

  // Over `host`, which outlives it and has the same ranks, they find each other. Throws if the
  // device fails.
  virtual std::unique_ptr<DeviceBackend> make_backend(Backend& host) = 0;
  // Ends what all backends have enqueued, with results that are of no use, so that nobody waits for
  // it for ever; waits some seconds for that. Nothing else may be asked of them afterwards.
  virtual void abort() = 0;
};

}  // namespace kolo
