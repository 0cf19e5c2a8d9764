// For MPI applications: kolo on a communicator of theirs. The only public header that needs
// <mpi.h>.
#pragma once

#include <mpi.h>

namespace kolo {

namespace detail {
void init_on(const void* mpi_comm);
}

// Collective over comm: as init() of kolo/init.h, for the ranks of comm. MPI must be running with
// MPI_THREAD_MULTIPLE, or with MPI_THREAD_SERIALIZED if the program calls no MPI while operations
// of kolo are in flight. kolo works on a duplicate: the application may go on using comm, and frees
// it and finalizes MPI itself, after kolo::shutdown().
inline void init(MPI_Comm comm) {
  detail::init_on(&comm);
}

}  // namespace kolo
