// Implements kolo/mpi.h without <mpi.h>.
#pragma once

#include <kolo/process_set.h>

namespace kolo::detail {

// Both take a pointer to an MPI_Comm.
void init_on(const void* mpi_comm);
ProcessSet add_process_set_from_comm(const void* mpi_comm);

}  // namespace kolo::detail
