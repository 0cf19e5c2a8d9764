#pragma once

namespace kolo {

// Waits until MPI_Init has ended on all ranks. Collective over MPI_COMM_WORLD, directly after
// MPI_Init. If Slurm's PMIx has started the ranks, Open MPI 5 lets some ranks leave MPI_Init before
// ranks of nodes that are informed later know MPI_COMM_WORLD. A message makes those ranks crash
// (open-mpi/ompi issue 12495). In all other cases, returns at once.
void await_all_in_mpi();

}  // namespace kolo
