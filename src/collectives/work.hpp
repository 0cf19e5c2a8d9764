// A collective in flight. It is stepped until it is done, so that several are in flight at once,
// and a failure ends one of them instead of blocking the thread.
#pragma once

#include <memory>
#include <optional>

#include "collectives/transport.hpp"
#include "core/clock.hpp"

namespace kolo {

class Work {
 public:
  virtual ~Work() = default;
  Work() = default;
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  // Called once, before step().
  virtual Status start() = 0;

  // Never blocks. Must not be called again after kDone or kFailed. After kFailed, messages may
  // still be in flight: the owner of the work keeps it and its buffers alive as long as the
  // transport.
  virtual Progress step(Status& status) = 0;

  // Returns the rank, in the world, that this work waits for, if that is known. That rank may
  // itself wait for another one.
  virtual std::optional<int> waits_for() const { return std::nullopt; }

  // For a work that uses a buffer: the times at which the buffer was filled and at which it held
  // the result. Otherwise the clock's epoch.
  struct BufferTimes {
    Clock::time_point filled;
    Clock::time_point ready;
  };
  virtual BufferTimes buffer_times() const { return {}; }
};

// Makes a work that runs both: `then` is started when `first` is done.
std::unique_ptr<Work> one_after_the_other(std::unique_ptr<Work> first, std::unique_ptr<Work> then);

}  // namespace kolo
