#pragma once

namespace kolo {

// Whether MPI reports that messages may lie in CUDA memory. Any thread may call it while MPI is
// initialized. False if MPI has no call to ask for that (no standard has one before MPI 4.1).
bool mpi_is_cuda_aware();

}  // namespace kolo
