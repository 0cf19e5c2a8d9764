// The communicator that kolo works in.
#pragma once

namespace kolo {

// A communicator of the application: a pointer to its MPI_Comm, or null for MPI_COMM_WORLD. It is a
// void pointer so that only this folder includes <mpi.h>.
struct MpiParent {
  const void* comm = nullptr;
};

}  // namespace kolo
