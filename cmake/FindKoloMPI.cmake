# Finds the MPI to build with, as target MPI::MPI_C (kolo uses MPI's C interface alone).
# KOLO_MPI, a variable of CMake or of the environment, is a prefix with bin/mpicc and takes
# precedence over what FindMPI would choose.
if(NOT KOLO_MPI AND DEFINED ENV{KOLO_MPI} AND NOT "$ENV{KOLO_MPI}" STREQUAL "wheel")
  set(KOLO_MPI "$ENV{KOLO_MPI}")
endif()
if(KOLO_MPI)
  if(NOT EXISTS "${KOLO_MPI}/bin/mpicc")
    message(FATAL_ERROR "KOLO_MPI=${KOLO_MPI} has no bin/mpicc; give the prefix of an MPI installation")
  endif()
  set(MPI_C_COMPILER "${KOLO_MPI}/bin/mpicc" CACHE FILEPATH "" FORCE)
  find_program(KOLO_MPIEXEC NAMES mpirun mpiexec PATHS "${KOLO_MPI}/bin" NO_DEFAULT_PATH REQUIRED)
  set(MPIEXEC_EXECUTABLE "${KOLO_MPIEXEC}" CACHE FILEPATH "" FORCE)
endif()
find_package(MPI QUIET COMPONENTS C)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(KoloMPI
  REQUIRED_VARS MPI_C_FOUND MPIEXEC_EXECUTABLE
  REASON_FAILURE_MESSAGE "no MPI found: run scripts/setup, load your cluster's MPI module, or set KOLO_MPI to a prefix")
# MPI's old C++ bindings, where the headers still have them, are neither used nor linked.
if(TARGET MPI::MPI_C)
  set_property(TARGET MPI::MPI_C APPEND PROPERTY INTERFACE_COMPILE_DEFINITIONS OMPI_SKIP_MPICXX=1 MPICH_SKIP_MPICXX=1)
endif()
