// Starts and ends kolo in a process, and gives the rank of the process.
#pragma once

#include <kolo/process_set.h>

#include <vector>

namespace kolo {

// Collective: every process of the job calls it once, before any other call. Starts the engine's
// thread, and MPI (with MPI_THREAD_MULTIPLE) if the program has not started it. Reads the settings
// of docs/configuration.md from the environment. Sets RANK, WORLD_SIZE, LOCAL_RANK,
// LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT unless they are set. A second call before
// shutdown() does nothing. To train on some of an application's ranks, see kolo/mpi.h.
//
// Throws InvalidArgumentError for an invalid setting, for an MPI without thread support, and if MPI
// sees only this process although the launcher has started several. InternalError if MPI fails.
void init();

// Calls init(), then add_process_set() for each list of ranks. Collective; every rank gives the
// same lists. Returns the sets in the order of the lists.
std::vector<ProcessSet> init(const std::vector<std::vector<int>>& process_sets);

// Collective. Completes the operations that every rank has submitted, fails the others, and ends
// the engine's thread. If this rank calls it early, operations that the other ranks still submit
// fail there with PeerLostError. Waits for the other ranks at most KOLO_SHUTDOWN_TIMEOUT_SECONDS.
// init() may follow. If kolo has started MPI, MPI is finalized when the process exits; otherwise
// the application finalizes it. kolo calls shutdown() at exit if the program has not.
void shutdown();

bool is_initialized();  // between init() and shutdown(); not collective

// Not collective. Throw NotInitializedError before init() and after shutdown().
int rank();             // 0 to size() - 1
int size();             // number of processes of the job
int local_rank();       // 0 to local_size() - 1: among the processes of this node
int local_size();       // number of processes of this node
int cross_rank();       // index of this node among the nodes with a process of this local rank
int cross_size();       // number of nodes with a process of this local rank
bool is_homogeneous();  // whether every node has the same number of processes

}  // namespace kolo
