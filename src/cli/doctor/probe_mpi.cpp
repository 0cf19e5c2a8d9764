#include <dlfcn.h>
#include <mpi.h>

#include <array>

#include "cli/doctor/probe.hpp"
#include "collectives/mpi/cuda_aware.hpp"

namespace kolo::cli {
namespace {

std::string name_of_level(int level) {
  switch (level) {
    case MPI_THREAD_SINGLE:
      return "SINGLE";
    case MPI_THREAD_FUNNELED:
      return "FUNNELED";
    case MPI_THREAD_SERIALIZED:
      return "SERIALIZED";
    case MPI_THREAD_MULTIPLE:
      return "MULTIPLE";
    default:
      return std::to_string(level);
  }
}

std::string library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  if (MPI_Get_library_version(text.data(), &length) != MPI_SUCCESS) return "unknown";
  // Open MPI adds who built it and where after the first comma, MPICH on further lines.
  const std::string whole(text.data(), static_cast<std::size_t>(length));
  return whole.substr(0, whole.find_first_of(",\n"));
}

}  // namespace

int probe_library() {
  report("mpi.library", library_version());
  return 0;
}

int probe_mpi() {
  int level = MPI_THREAD_SINGLE;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS) return 1;
  int rank = 0;
  int size = 0;
  if (MPI_Comm_rank(MPI_COMM_WORLD, &rank) != MPI_SUCCESS) return 1;
  if (MPI_Comm_size(MPI_COMM_WORLD, &size) != MPI_SUCCESS) return 1;
  int mine = rank + 1;
  int sum = 0;
  const int code = MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) {
    report("mpi.library", library_version());
    report("mpi.thread_level", name_of_level(level));
    report("mpi.ranks", std::to_string(size));
    report("mpi.allreduce",
           code == MPI_SUCCESS && sum == size * (size + 1) / 2 ? "right" : "wrong");
    // Reports whether the library has the calls; only a job started with --with-ft ulfm can use
    // them.
    const bool has_ulfm = ::dlsym(RTLD_DEFAULT, "MPIX_Comm_shrink") != nullptr;
    report("mpi.ulfm", has_ulfm ? "there" : "not there");
    report("mpi.cuda_aware", mpi_is_cuda_aware() ? "yes" : "no");
  }
  return MPI_Finalize() == MPI_SUCCESS ? 0 : 1;
}

}  // namespace kolo::cli
