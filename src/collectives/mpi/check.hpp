// Every return code of MPI passes through here.
#pragma once

#include <mpi.h>

#include "core/status.hpp"

namespace kolo {

// Returns ok for MPI_SUCCESS, otherwise an error with the name of the call and MPI's own message. A
// failed process or a revoked communicator (ULFM) becomes kPeerLost; the message names the ranks of
// `comm` that have failed.
Status check_mpi(int code, const char* call, MPI_Comm comm = MPI_COMM_NULL);

}  // namespace kolo
