#include "collectives/mpi/check.hpp"

#include <string>

#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

namespace kolo {
namespace {

bool means_lost_peer(int error_class) {
#ifdef MPIX_ERR_PROC_FAILED
  return error_class == MPIX_ERR_PROC_FAILED || error_class == MPIX_ERR_PROC_FAILED_PENDING ||
         error_class == MPIX_ERR_REVOKED;
#else
  (void)error_class;
  return false;
#endif
}

}  // namespace

Status check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return Status::ok();
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) length = 0;
  const std::string message =
      std::string(call) +
      " failed: " + (length > 0 ? std::string(text, length) : "MPI error " + std::to_string(code));
  int error_class = code;
  if (MPI_Error_class(code, &error_class) == MPI_SUCCESS && means_lost_peer(error_class)) {
    return Status::peer_lost(message);
  }
  return Status::internal(message);
}

}  // namespace kolo
