// Rank 1 ends in a way that the launcher alone understands, while rank 0 waits for it.
#include <mpi.h>
#include <unistd.h>

#include <cstring>

int main(int argc, char** argv) {
  int rank = 0;
  if (MPI_Init(&argc, &argv) != MPI_SUCCESS) return 2;
  if (MPI_Comm_rank(MPI_COMM_WORLD, &rank) != MPI_SUCCESS) return 2;
  if (rank == 1 && argc == 2) {
    if (std::strcmp(argv[1], "abort") == 0) MPI_Abort(MPI_COMM_WORLD, 7);
    if (std::strcmp(argv[1], "early") == 0) _exit(0);  // without MPI_Finalize
  }
  if (MPI_Barrier(MPI_COMM_WORLD) != MPI_SUCCESS) return 3;
  return MPI_Finalize() == MPI_SUCCESS ? 0 : 4;
}
