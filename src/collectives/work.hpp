// A collective under way: an object that is stepped until it is done, so that several are in flight
// at once and a failure ends one of them instead of blocking the thread.
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

  // Never blocks. After kDone or kFailed it is not called again. After kFailed messages may still
  // be under way: whoever owns the work keeps it and its buffers alive for as long as the
  // transport.
  virtual Progress step(Status& status) = 0;

  // The rank, in the world, that this work waits for, if that is known. That rank may itself wait
  // for another one.
  virtual std::optional<int> waits_for() const { return std::nullopt; }

  // For a work that uses a buffer: the times at which the buffer was filled and at which it held
  // the result. Otherwise the clock's epoch.
  struct BufferTimes {
    Clock::time_point filled;
    Clock::time_point ready;
  };
  virtual BufferTimes buffer_times() const { return {}; }
};

// The second one is started when the first one is done.
std::unique_ptr<Work> one_after_the_other(std::unique_ptr<Work> first, std::unique_ptr<Work> then);

}  // namespace kolo
