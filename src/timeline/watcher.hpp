// A thread that looks after a rank while nobody else does: it writes the flight recorder when
// SIGUSR2 comes, and tells when the program has done nothing for long.
#pragma once

#include <thread>

#include "core/status.hpp"
#include "timeline/tracing.hpp"

namespace kolo::timeline {

class Watcher {
 public:
  struct Options {
    Clock::duration quiet = Clock::duration::zero();  // how long is long; 0: never
    bool tells_of_quiet = true;                       // else it writes the flight recorder alone
  };
  // One at a time. `tracing` outlives it. A handler of the program's own for SIGUSR2 stays.
  Watcher(Tracing& tracing, const Options& options);
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

 private:
  void run();
  void look(Clock::time_point now);

  Tracing& tracing_;
  const Options options_;
  Nanoseconds told_ = kNever;  // of the quiet since then
  std::thread thread_;
};

}  // namespace kolo::timeline
