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

#ifdef OMPI_HAVE_MPI_EXT_FTMPI
// Returns ": the process of rank 3 has ended", or "" if MPI does not know.
std::string failed_ranks(MPI_Comm comm) {
  MPI_Group failed = MPI_GROUP_NULL;
  MPI_Group all = MPI_GROUP_NULL;
  int count = 0;
  std::string text;
  if (comm != MPI_COMM_NULL && MPIX_Comm_get_failed(comm, &failed) == MPI_SUCCESS &&
      MPI_Comm_group(comm, &all) == MPI_SUCCESS && MPI_Group_size(failed, &count) == MPI_SUCCESS) {
    for (int i = 0; i < count; ++i) {
      int rank = 0;
      if (MPI_Group_translate_ranks(failed, 1, &i, all, &rank) != MPI_SUCCESS) continue;
      text += ": the process of rank " + std::to_string(rank) + " has ended";
    }
  }
  for (MPI_Group* group : {&failed, &all}) {
    if (*group != MPI_GROUP_NULL) MPI_Group_free(group);  // errors do not matter here
  }
  return text;
}
#else
std::string failed_ranks(MPI_Comm /*comm*/) {
  return "";
}
#endif

}  // namespace

Status check_mpi(int code, const char* call, MPI_Comm comm) {
  if (code == MPI_SUCCESS) return Status::ok();
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) length = 0;
  const std::string message =
      std::string(call) +
      " failed: " + (length > 0 ? std::string(text, length) : "MPI error " + std::to_string(code));
  int error_class = code;
  if (MPI_Error_class(code, &error_class) == MPI_SUCCESS && means_lost_peer(error_class)) {
    return Status::peer_lost(message + failed_ranks(comm));
  }
  return Status::internal(message);
}

}  // namespace kolo
