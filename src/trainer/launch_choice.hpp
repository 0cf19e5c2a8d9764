// Whether a program that calls launch() is a rank, and how many ranks it starts otherwise.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace kolo::trainer {

struct LaunchChoice {
  bool is_rank = true;
  std::vector<std::string> run_options;  // of kolo run: "-np", "2"
  std::vector<std::string> arguments;    // of the program, without --np
};

struct Machine {
  int gpus = 0;        // that this process sees
  int numa_nodes = 1;  // on which it may run
};

// `get` gives a variable of the environment or nullptr; `machine` is called if it matters. Throws
// InvalidArgumentError for a bad --np.
LaunchChoice choose_launch(const std::vector<std::string>& arguments,
                           const std::function<const char*(const char*)>& get,
                           const std::function<Machine()>& machine);

// Those of this machine that have one of the cores; at least 1. `folder`:
// /sys/devices/system/node, or one like it.
int count_numa_nodes(const std::string& folder, const std::vector<int>& cores);

}  // namespace kolo::trainer
