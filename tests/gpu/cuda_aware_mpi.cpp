#include "gpu/cuda_aware_mpi.hpp"

#include <mpi.h>

#include <atomic>

#include "fake_gpu/fake_gpu.hpp"

namespace fake_gpu {
namespace {
std::atomic<int> on_device{0};
}  // namespace

int messages_on_device() {
  return on_device;
}

}  // namespace fake_gpu

// In place of the library's, which are behind the names with a P (MPI 4.0, section 14.2).
extern "C" {

int MPIX_Query_cuda_support(void) {
  return 1;
}

int MPI_Isend(const void* data, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
              MPI_Request* request) {
  if (fake_gpu::is_on_device(data)) ++fake_gpu::on_device;
  return PMPI_Isend(fake_gpu::on_host(data), count, type, peer, tag, comm, request);
}

int MPI_Irecv(void* data, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
              MPI_Request* request) {
  return PMPI_Irecv(fake_gpu::on_host(data), count, type, peer, tag, comm, request);
}

}  // extern "C"
