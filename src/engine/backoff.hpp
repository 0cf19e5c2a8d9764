// Decides how the engine waits for others: by spinning, yielding or sleeping. Used by the thread
// that drives.
//
// Spinning answers fastest, but takes a core from computing threads. So the engine spins only if a
// core is free for it: because the machine has more cores than computing threads, or because a
// thread of the program is blocked and waits for the engine.
#pragma once

#include <optional>

#include "core/clock.hpp"

namespace kolo {

class Backoff {
 public:
  struct Options {
    Clock::duration spin{};     // how long to spin before yielding
    double cores_per_rank = 1;  // cores this process may use, shared with the node's other ranks
    int computing_threads = 1;  // threads of this rank that compute
  };

  explicit Backoff(const Options& options) : options_(options) {}

  // A device computes, so only the submitting thread of the program needs a core.
  void leave_computing_to_device() { options_.computing_threads = 1; }
  // Whether a core is free for this thread, beside those that compute.
  bool has_core() const { return options_.cores_per_rank >= options_.computing_threads + 1; }

  // Called when something moved: waiting starts anew.
  void reset() { idle_since_.reset(); }

  // Called when nothing moved. Spins or yields once and returns nothing, or returns the time to
  // sleep.
  std::optional<Clock::duration> pause(bool somebody_waits);

 private:
  Options options_;
  std::optional<Clock::time_point> idle_since_;
};

}  // namespace kolo
