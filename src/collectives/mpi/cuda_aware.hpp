#pragma once

namespace kolo {

// Whether MPI says that messages may lie in CUDA's memory. Any thread, while MPI is there. An MPI
// that has no call to ask for that (no standard has one before MPI 4.1) is taken for one that does
// not know.
bool mpi_is_cuda_aware();

}  // namespace kolo
