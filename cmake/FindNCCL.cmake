# Finds NCCL: target NCCL::nccl. Looked for in NCCL_ROOT (variable of CMake or of the environment: a prefix with include/ and
# lib/, such as site-packages/nvidia/nccl), then where a wheel of LibTorch has its own (a process has one NCCL, and an older
# one than LibTorch's CUDA half was built with keeps that from being loaded), then beside the CUDA toolkit, then where the
# system has libraries.
set(_beside_torch "")
if(LibTorch_CPU_LIBRARY)
  get_filename_component(_beside_torch "${LibTorch_CPU_LIBRARY}" DIRECTORY)
  set(_beside_torch "${_beside_torch}/../../nvidia/nccl")
endif()
find_path(NCCL_INCLUDE_DIR nccl.h HINTS "${_beside_torch}/include" ${CUDAToolkit_INCLUDE_DIRS})
find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2 NAMES_PER_DIR HINTS "${_beside_torch}/lib" ${CUDAToolkit_LIBRARY_DIR})
set(NCCL_VERSION "")
if(NCCL_INCLUDE_DIR)
  file(STRINGS "${NCCL_INCLUDE_DIR}/nccl.h" _lines REGEX "define NCCL_(MAJOR|MINOR|PATCH) ")
  foreach(_line IN LISTS _lines)
    string(REGEX MATCH "[0-9]+$" _number "${_line}")
    list(APPEND NCCL_VERSION "${_number}")
  endforeach()
  string(REPLACE ";" "." NCCL_VERSION "${NCCL_VERSION}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(NCCL REQUIRED_VARS NCCL_LIBRARY NCCL_INCLUDE_DIR VERSION_VAR NCCL_VERSION
  REASON_FAILURE_MESSAGE "set NCCL_ROOT to the prefix of an NCCL")
if(NCCL_FOUND AND NOT TARGET NCCL::nccl)
  add_library(NCCL::nccl UNKNOWN IMPORTED)
  set_target_properties(NCCL::nccl PROPERTIES IMPORTED_LOCATION "${NCCL_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${NCCL_INCLUDE_DIR}")
endif()
