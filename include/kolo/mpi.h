// For MPI applications: kolo on a communicator of theirs. The only public header that needs
// <mpi.h>.
#pragma once

#include <kolo/mpi_detail.h>
#include <mpi.h>

namespace kolo {

// Collective over comm: as init() of kolo/init.h, for the ranks of comm. MPI must be running with
// MPI_THREAD_MULTIPLE, or with MPI_THREAD_SERIALIZED if the program calls no MPI until
// kolo::shutdown(): on several nodes, a rank without operations looks for messages, too. kolo works
// on a duplicate: the application may go on using comm, and frees it and finalizes MPI itself,
// after kolo::shutdown().
inline void init(MPI_Comm comm) {
  detail::init_on(&comm);
}

// Collective over all ranks of kolo, each with a communicator of its own choice, as MPI_Comm_split
// gives them, or MPI_COMM_NULL. Every communicator becomes a process set, with its order of ranks;
// returned is the one that this rank is in (with MPI_COMM_NULL: a set without members). The
// communicators may be freed afterwards. InvalidArgumentError on all ranks if one of them has a
// process that is not a rank of kolo, or if not all of kolo's ranks are in one MPI_COMM_WORLD.
inline ProcessSet add_process_set_from_comm(MPI_Comm comm) {
  return detail::add_process_set_from_comm(&comm);
}

}  // namespace kolo
