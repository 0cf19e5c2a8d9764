// Starting and ending kolo in a process, and where the process stands among the others.
#pragma once

#include <kolo/process_set.h>

#include <vector>

namespace kolo {

// Collective: every process of the job calls it once, before any other call. Starts MPI if the
// program has not (with MPI_THREAD_MULTIPLE) and the engine's thread. Reads the settings of
// docs/configuration.md from the environment, and exports RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR
// and MASTER_PORT where they are unset. A second call before shutdown() does nothing. To train on a
// part of an application's ranks see kolo/mpi.h.
//
// Throws InvalidArgumentError for a bad setting, an MPI without thread support, or one that knows
// of this process alone where the launcher has started several; InternalError if MPI fails.
void init();

// Likewise, and makes process sets at once: see add_process_set(). The same sets on every rank.
std::vector<ProcessSet> init(const std::vector<std::vector<int>>& process_sets);

// Collective. Operations that every rank has submitted are ended, others fail; then the engine's
// thread ends. init() may follow. MPI that kolo started is finalized at the process' end, and an
// application's MPI is left alone. Called at exit if the program has not. A rank that comes here
// early makes operations of the others fail with PeerLostError; it waits for them for
// KOLO_SHUTDOWN_TIMEOUT_SECONDS.
void shutdown();

bool is_initialized();  // between init() and shutdown(); not collective

// Not collective. Throw NotInitializedError before init() and after shutdown().
int rank();             // 0 to size() - 1
int size();             // processes
int local_rank();       // among the processes of this node
int local_size();       // processes of this node
int cross_rank();       // which node, among those that have this local_rank
int cross_size();       // how many nodes have this local_rank
bool is_homogeneous();  // every node has the same number of processes

}  // namespace kolo
