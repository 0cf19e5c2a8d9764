// One rank's program and what stands around it.
#pragma once

#include <string>
#include <vector>

#include "cli/rank/placement.hpp"

namespace kolo::cli {

struct RankOptions {
  int threads = 0;     // 0: choose
  bool bind = false;   // to cores of its own, if this host has enough
  bool bound = false;  // the launcher has given this rank cores of its own
  int cpus = 0;        // of this host that the batch system has given to the job; 0: all in reach
  // Time that the program gets to end after it was asked to. Shorter than the launcher's wait
  // before it kills kolo-rank, because nothing else would end the program's own children.
  double grace_seconds = 0.8;
  Rendezvous rendezvous;
  std::vector<std::string> program;
};

// Starts the program and returns its exit code; kills this process by the signal that killed the
// program. Throws when this is no rank of a launcher, or when the system refuses something.
int run_rank(const RankOptions& options);

}  // namespace kolo::cli
