// A thread that watches a rank. It writes the flight recorder on SIGUSR2, and reports when the
// program has submitted nothing for long.
#pragma once

#include <thread>

#include "core/status.hpp"
#include "timeline/tracing.hpp"

namespace kolo::timeline {

class Watcher {
 public:
  struct Options {
    Clock::duration quiet = Clock::duration::zero();  // silence to report; 0: none
    bool tells_of_quiet = true;                       // false: it only writes the flight recorder
  };
  // Only one watcher at a time. `tracing` outlives it. A handler of the program's own for SIGUSR2
  // stays.
  Watcher(Tracing& tracing, const Options& options);
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

 private:
  void run();
  void look(Clock::time_point now);

  Tracing& tracing_;
  const Options options_;
  Nanoseconds told_ = kNever;  // start of the last silence that was reported
  std::thread thread_;
};

}  // namespace kolo::timeline
