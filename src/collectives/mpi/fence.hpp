#pragma once

namespace kolo {

// Collective over MPI_COMM_WORLD, directly after MPI_Init: returns when that has ended on all
// ranks. Where Slurm's PMIx has started the ranks, Open MPI 5 lets some of them out of MPI_Init
// before others, on nodes that are told later, know MPI_COMM_WORLD; a message makes those crash
// (open-mpi/ompi issue 12495). Elsewhere nothing is waited for.
void await_all_in_mpi();

}  // namespace kolo
