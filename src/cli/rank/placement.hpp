// Finds out which rank a process is, from the variables that its launcher has set.
#pragma once

#include <optional>

#include "cli/process/environment.hpp"

namespace kolo::cli {

struct Placement {
  int rank = 0;
  int size = 1;
  // Among the processes of the same node. Both are -1 if the launcher does not report them.
  int local_rank = -1;
  int local_size = -1;
};

// Tries Open MPI's variables first, then MPICH's (PMI), then PMIx's, and Slurm's last: under mpirun
// inside a batch job every rank has SLURM_PROCID=0. Returns nothing if no launcher has left valid
// variables.
std::optional<Placement> placement_from(const Lookup& environment);

struct Rendezvous {
  std::string address;
  int port = 0;
};

struct ThreadChoice {
  int requested = 0;       // --threads-per-rank; 0: choose
  int cores_in_reach = 1;  // cores that this process may run on
  int cores_of_node = 0;   // cores that the node's ranks share; 0: this rank shares none
  // CPU time that the node's ranks have together, in cores; nothing: no quota.
  std::optional<double> quota;
};

// Returns how many threads a rank may use without taking a neighbour's core: at least 1.
int threads_per_rank(const ThreadChoice& choice, int local_size);

// Returns the variables that kolo adds to the environment of each rank's program: RANK, WORLD_SIZE,
// LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, and the number of threads unless the user
// has set it.
Variables exported_variables(const Placement& placement, const Rendezvous& rendezvous, int threads,
                             const Lookup& environment);

}  // namespace kolo::cli
