// Which rank a process is, from what its launcher put into the environment.
#pragma once

#include <optional>

#include "cli/process/environment.hpp"

namespace kolo::cli {

struct Placement {
  int rank = 0;
  int size = 1;
  // Among the processes of the same node; both are -1 when the launcher does not tell.
  int local_rank = -1;
  int local_size = -1;
};

// Believes Open MPI's variables first, then MPICH's (PMI), then PMIx, Slurm's last: under mpirun
// inside a batch job every rank has SLURM_PROCID=0. Nothing when no launcher has left a (sane)
// trace.
std::optional<Placement> placement_from(const Lookup& environment);

struct Rendezvous {
  std::string address;
  int port = 0;
};

struct ThreadChoice {
  int requested = 0;       // --threads-per-rank; 0: choose
  int cores_in_reach = 1;  // cores that this process may run on
  int cores_of_node = 0;   // those that the node's ranks share; 0: this rank shares no core
  // CPU time that the node's ranks have together, in cores; nothing: there is no quota.
  std::optional<double> quota;
};

// Threads that a rank may use without taking a neighbour's core: at least 1.
int threads_per_rank(const ThreadChoice& choice, int local_size);

// The variables that kolo adds to the environment of each rank's program: RANK, WORLD_SIZE,
// LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, and the number of threads unless the user
// has set that.
Variables exported_variables(const Placement& placement, const Rendezvous& rendezvous, int threads,
                             const Lookup& environment);

}  // namespace kolo::cli
