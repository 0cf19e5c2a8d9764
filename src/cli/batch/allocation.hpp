// The hosts that a batch system has given to the job in which `kolo run` was started.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/batch/hosts.hpp"
#include "cli/process/environment.hpp"

namespace kolo::cli {

enum class BatchSystem : std::uint8_t { kNone, kSlurm, kPbs, kLsf };
const char* name_of(BatchSystem system);

// A part of a heterogeneous job of Slurm.
struct Component {
  int number = 0;           // as srun --het-group counts them
  std::vector<Host> hosts;  // with the tasks of each
};

struct Allocation {
  BatchSystem system = BatchSystem::kNone;
  std::vector<Host> hosts;        // with the ranks (Slurm: tasks) that each is to take
  int cpus_per_host = 0;          // CPUs given on the host that has fewest; 0: not told
  int cpus_per_rank = 0;          // --cpus-per-task; 0: not told
  int gpus_per_host = 0;          // 0: none, or not told
  bool gpus_may_differ = false;   // a total was asked for, and gpus_per_host is this host's alone
  bool in_step = false;           // started by srun, so that Slurm holds the step's CPUs for it
  std::vector<Component> others;  // of a heterogeneous job of Slurm; `hosts` are component 0's
};

// The whole file, or nothing where it cannot be read.
using ReadFile = std::function<std::optional<std::string>(const std::string& name)>;

// From the environment of Slurm, PBS (PBS_NODEFILE) or LSF (LSB_DJOB_HOSTFILE, LSB_MCPU_HOSTS,
// LSB_HOSTS). Throws UsageError where a batch system has left something that cannot be understood,
// and in a step of Slurm whose hosts mpirun cannot reach.
Allocation find_allocation(const Lookup& environment, const ReadFile& read);

}  // namespace kolo::cli
