// Every return code of MPI passes through here.
#pragma once

#include <mpi.h>

#include "core/status.hpp"

namespace kolo {

// Ok for MPI_SUCCESS; else what was called and MPI's own words. A failed or revoked process (ULFM)
// becomes kPeerLost, and says which ranks of `comm` have failed.
Status check_mpi(int code, const char* call, MPI_Comm comm = MPI_COMM_NULL);

}  // namespace kolo
