// Decides whether a program that calls launch() is a rank, and how many ranks it starts otherwise.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace kolo::trainer {

struct LaunchChoice {
  bool is_rank = true;
  std::vector<std::string> run_options;  // for kolo run: "-np", "2"
  std::vector<std::string> arguments;    // for the program, without --np
};

struct Machine {
  int gpus = 0;        // visible to this process
  int numa_nodes = 1;  // on which it may run
};

// `get` returns an environment variable or nullptr; `machine` is called only if it matters. Throws
// InvalidArgumentError for an invalid --np.
LaunchChoice choose_launch(const std::vector<std::string>& arguments,
                           const std::function<const char*(const char*)>& get,
                           const std::function<Machine()>& machine);

// Counts this machine's NUMA nodes that have at least one of the cores; returns at least 1.
// `folder`: /sys/devices/system/node, or one like it.
int count_numa_nodes(const std::string& folder, const std::vector<int>& cores);

}  // namespace kolo::trainer
