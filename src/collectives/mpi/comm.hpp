#pragma once

#include <mpi.h>

#include "collectives/mpi/parent.hpp"

namespace kolo {

inline MPI_Comm comm_of(MpiParent parent) {
  return parent.comm == nullptr ? MPI_COMM_WORLD : *static_cast<const MPI_Comm*>(parent.comm);
}

}  // namespace kolo
