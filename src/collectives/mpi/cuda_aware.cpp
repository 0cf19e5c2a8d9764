#include "collectives/mpi/cuda_aware.hpp"

#include <mpi.h>
#if defined(OPEN_MPI) && __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

namespace kolo {

bool mpi_is_cuda_aware() {
#if defined(OMPI_HAVE_MPI_EXT_CUDA)
  return MPIX_Query_cuda_support() == 1;
#elif defined(MPIX_GPU_SUPPORT_CUDA)  // MPICH 4.0 and later, and its derivatives
  int is_supported = 0;
  const int code = MPIX_GPU_query_support(MPIX_GPU_SUPPORT_CUDA, &is_supported);
  return code == MPI_SUCCESS && is_supported != 0;
#else
  return false;
#endif
}

}  // namespace kolo
