// Runs kolo on a communicator of an MPI application. The only public header that needs <mpi.h>.
#pragma once

#include <kolo/mpi_detail.h>
#include <mpi.h>

namespace kolo {

// Like init() of kolo/init.h, for the ranks of comm. Collective over comm. MPI must be running with
// MPI_THREAD_MULTIPLE. MPI_THREAD_SERIALIZED is enough if the program does not call MPI until
// kolo::shutdown(), because kolo's thread may call MPI at any time on a job of several nodes. kolo
// duplicates comm, so the application may go on using it. After kolo::shutdown() the application
// frees comm and finalizes MPI.
inline void init(MPI_Comm comm) {
  detail::init_on(&comm);
}

// Makes a process set of each communicator, with its order of ranks, and returns the one that
// contains this rank. Collective over all ranks of kolo. Ranks may pass different communicators, as
// MPI_Comm_split() returns them, or MPI_COMM_NULL, for which it returns a set without members. The
// communicators may be freed afterwards. InvalidArgumentError on all ranks if a communicator has a
// process that is not a rank of kolo, or if not all of kolo's ranks are in one MPI_COMM_WORLD.
inline ProcessSet add_process_set_from_comm(MPI_Comm comm) {
  return detail::add_process_set_from_comm(&comm);
}

}  // namespace kolo
