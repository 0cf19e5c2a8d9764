// Supervises one rank's program.
#pragma once

#include <string>
#include <vector>

#include "cli/rank/placement.hpp"

namespace kolo::cli {

struct RankOptions {
  int threads = 0;     // 0: choose
  bool bind = false;   // to cores of its own, if this host has enough
  bool bound = false;  // the launcher has bound this rank to cores of its own
  int cpus = 0;        // of this host, given to the job by the batch system; 0: all in reach
  // Time that the program has to end after it was asked to. It is shorter than the launcher's wait
  // before it kills kolo-rank, because nothing else would end the program's own children.
  double grace_seconds = 0.8;
  Rendezvous rendezvous;
  std::vector<std::string> program;
};

// Starts the program and returns its exit code. If a signal killed the program, kills this process
// by the same signal. Throws if this process is not a launcher's rank, or if a system call fails.
int run_rank(const RankOptions& options);

}  // namespace kolo::cli
