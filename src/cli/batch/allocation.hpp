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
  int number = 0;           // for srun --het-group
  std::vector<Host> hosts;  // their slots are tasks
};

struct Allocation {
  BatchSystem system = BatchSystem::kNone;
  std::vector<Host> hosts;        // their slots are ranks (Slurm: tasks)
  int cpus_per_host = 0;          // CPUs of the job on the host that has fewest; 0: unknown
  int cpus_per_rank = 0;          // --cpus-per-task; 0: unknown
  int gpus_per_host = 0;          // 0: none, or unknown
  bool gpus_may_differ = false;   // the job asked for a total; gpus_per_host is only this host's
  bool in_step = false;           // started by srun, so Slurm holds the step's CPUs for it
  std::vector<Component> others;  // of a heterogeneous job of Slurm; `hosts` is component 0
};

// Returns the whole file, or nothing if it cannot be read.
using ReadFile = std::function<std::optional<std::string>(const std::string& name)>;

// Reads the environment of Slurm, PBS (PBS_NODEFILE) or LSF (LSB_DJOB_HOSTFILE, LSB_MCPU_HOSTS,
// LSB_HOSTS). Throws UsageError if a batch system's variables cannot be understood, and in a step
// of Slurm with hosts that mpirun cannot reach.
Allocation find_allocation(const Lookup& environment, const ReadFile& read);

}  // namespace kolo::cli
