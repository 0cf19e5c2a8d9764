# Finds LibTorch for a CPU program: target kolo::libtorch (libtorch_cpu and libc10, headers).
#
# LibTorch's own TorchConfig.cmake is not used: in a build with CUDA it demands the CUDA toolkit and
# every NVIDIA library of whoever links, though a CPU program needs none of them.
#
# If KOLO_TORCH is set, as a CMake or an environment variable, only that prefix is searched. It has
# include/ and lib/libtorch_cpu.so, as an unpacked LibTorch or site-packages/torch does. Otherwise
# CMAKE_PREFIX_PATH is searched, then KOLO_TORCH_DEFAULT, which koloConfig.cmake sets.
if(NOT KOLO_TORCH AND DEFINED ENV{KOLO_TORCH} AND NOT "$ENV{KOLO_TORCH}" STREQUAL "wheel")
  set(KOLO_TORCH "$ENV{KOLO_TORCH}")
endif()
if(KOLO_TORCH AND NOT EXISTS "${KOLO_TORCH}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "KOLO_TORCH=${KOLO_TORCH} has no lib/libtorch_cpu.so; give the prefix of a LibTorch")
endif()
if(KOLO_TORCH)
  set(_torch "${KOLO_TORCH}")
  set(_only NO_DEFAULT_PATH)  # HINTS alone come after CMAKE_PREFIX_PATH
else()
  set(_torch "${KOLO_TORCH_DEFAULT}")
  set(_only "")
endif()
find_path(LibTorch_INCLUDE_DIR ATen/ATen.h HINTS "${_torch}/include" ${_only})
find_library(LibTorch_CPU_LIBRARY torch_cpu HINTS "${_torch}/lib" ${_only})
find_library(LibTorch_C10_LIBRARY c10 HINTS "${_torch}/lib" ${_only})
set(LibTorch_VERSION "")
if(LibTorch_INCLUDE_DIR AND EXISTS "${LibTorch_INCLUDE_DIR}/torch/headeronly/version.h")
  file(STRINGS "${LibTorch_INCLUDE_DIR}/torch/headeronly/version.h" _lines REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH)")
elseif(LibTorch_INCLUDE_DIR AND EXISTS "${LibTorch_INCLUDE_DIR}/torch/csrc/api/include/torch/version.h")
  file(STRINGS "${LibTorch_INCLUDE_DIR}/torch/csrc/api/include/torch/version.h" _lines REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH)")
endif()
foreach(_line IN LISTS _lines)
  string(REGEX MATCH "[0-9]+$" _number "${_line}")
  list(APPEND LibTorch_VERSION "${_number}")
endforeach()
string(REPLACE ";" "." LibTorch_VERSION "${LibTorch_VERSION}")
# The C++ standard that the headers demand: "__cplusplus < 202002L" stands before their #error.
set(LibTorch_CXX_STANDARD 17)
if(LibTorch_INCLUDE_DIR AND EXISTS "${LibTorch_INCLUDE_DIR}/ATen/ATen.h")
  file(STRINGS "${LibTorch_INCLUDE_DIR}/ATen/ATen.h" _lines REGEX "__cplusplus < 202002")
  if(_lines)
    set(LibTorch_CXX_STANDARD 20)
  endif()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch
  REQUIRED_VARS LibTorch_CPU_LIBRARY LibTorch_C10_LIBRARY LibTorch_INCLUDE_DIR
  VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE "run scripts/setup, or set KOLO_TORCH to the prefix of a LibTorch")
if(LibTorch_FOUND AND NOT TARGET kolo::libtorch)
  add_library(kolo::libtorch INTERFACE IMPORTED)
  target_include_directories(kolo::libtorch SYSTEM INTERFACE
    "${LibTorch_INCLUDE_DIR}" "${LibTorch_INCLUDE_DIR}/torch/csrc/api/include")
  target_link_libraries(kolo::libtorch INTERFACE "${LibTorch_CPU_LIBRARY}" "${LibTorch_C10_LIBRARY}")
  target_compile_features(kolo::libtorch INTERFACE cxx_std_${LibTorch_CXX_STANDARD})
endif()
