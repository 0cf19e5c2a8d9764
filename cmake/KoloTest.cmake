# kolo_test(NAME SOURCES... [TORCH] [TIMEOUT S]): a GoogleTest program of one process; each of its
# tests becomes a CTest test with a timeout. Without TORCH it links no MPI either: the thread sanitizer
# does not bear what communication libraries do to memory when they are loaded.
function(kolo_test name)
  cmake_parse_arguments(ARG "TORCH" "TIMEOUT" "" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/tests")
  target_link_libraries(${name} PRIVATE GTest::gmock GTest::gtest_main)
  kolo_warnings(${name})
  if(ARG_TORCH)
    target_link_libraries(${name} PRIVATE kolo)
    target_precompile_headers(${name} REUSE_FROM kolo_torch_pch)
  else()
    target_link_libraries(${name} PRIVATE kolo_units)
  endif()
  gtest_discover_tests(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} DISCOVERY_TIMEOUT 60)
endfunction()

# MPI's libraries without its header's folder.
add_library(kolo_mpi_libraries INTERFACE)
target_link_libraries(kolo_mpi_libraries INTERFACE $<LINK_ONLY:MPI::MPI_C>)

# kolo_calls_mpi(SOURCES...): these sources include <mpi.h>. The others of their target are compiled without its folder, so
# that the compiler cache finds them again in a build with another MPI.
function(kolo_calls_mpi)
  set(options ${MPI_C_COMPILE_OPTIONS})
  foreach(folder IN LISTS MPI_C_INCLUDE_DIRS)
    list(APPEND options "-isystem${folder}")
  endforeach()
  set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS ${options})
  set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_DEFINITIONS ${MPI_C_COMPILE_DEFINITIONS} OMPI_SKIP_MPICXX=1 MPICH_SKIP_MPICXX=1)
endfunction()

# add_mpi_test(NAME SOURCES... [CALLS_MPI SOURCES...] RANKS 1 2 3 4): a GoogleTest program that runs whole under MPI, once
# for each number of ranks. The sources after CALLS_MPI are those that include <mpi.h>. tests/mpi_main.cpp makes a
# failure on any rank fail the test and shows that rank's output.
function(add_mpi_test name)
  cmake_parse_arguments(ARG "TORCH" "TIMEOUT" "RANKS;SOURCES;CALLS_MPI" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(ARG_CALLS_MPI)
    kolo_calls_mpi(${ARG_CALLS_MPI})
  endif()
  add_executable(${name} ${ARG_SOURCES} ${ARG_CALLS_MPI} $<TARGET_OBJECTS:kolo_mpi_main>)
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/tests")
  target_link_libraries(${name} PRIVATE kolo kolo_mpi_libraries GTest::gmock GTest::gtest)
  kolo_warnings(${name})
  if(ARG_TORCH)
    target_precompile_headers(${name} REUSE_FROM kolo_torch_pch)
  endif()
  foreach(ranks IN LISTS ARG_RANKS)
    add_test(NAME ${name}.np${ranks} COMMAND "${PROJECT_SOURCE_DIR}/tests/mpirun.sh"
             "${MPIEXEC_EXECUTABLE}" ${ranks} $<TARGET_FILE:${name}>)
    # Two ranks share memory, in which tensors are born; three send messages, as ranks on several nodes
    # do; four share memory, but their tensors lie elsewhere.
    if(ranks EQUAL 3)
      set_tests_properties(${name}.np${ranks} PROPERTIES ENVIRONMENT "KOLO_SHARED_MEMORY=0")
    elseif(ranks EQUAL 4)
      set_tests_properties(${name}.np${ranks} PROPERTIES ENVIRONMENT "KOLO_ARENA=0")
    endif()
    set_tests_properties(${name}.np${ranks} PROPERTIES TIMEOUT ${ARG_TIMEOUT} PROCESSORS ${ranks} LABELS mpi)
  endforeach()
endfunction()

# kolo_fuzzer(NAME SOURCES... MAX_LENGTH BYTES [SECONDS S]): a libFuzzer program, if KOLO_FUZZ is ON, and a test
# that runs it for S seconds (default: 15). Compiles what it tests itself, so that libFuzzer sees its branches. It begins
# with the inputs in the folder corpus/NAME, if there is one. For longer, which adds what it finds to FOLDER:
#   NAME -max_len=BYTES -max_total_time=300 -rss_limit_mb=512 FOLDER corpus/NAME
# To keep what reaches a branch that corpus/NAME does not reach:   NAME -merge=1 corpus/NAME FOLDER
option(KOLO_FUZZ "Build the fuzzers (needs clang)" OFF)
function(kolo_fuzzer name)
  if(NOT KOLO_FUZZ)
    return()
  endif()
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "KOLO_FUZZ needs clang, which has libFuzzer: set CMAKE_CXX_COMPILER=clang++")
  endif()
  cmake_parse_arguments(ARG "" "MAX_LENGTH;SECONDS" "" ${ARGN})
  if(NOT ARG_SECONDS)
    set(ARG_SECONDS 15)
  endif()
  set(corpus "${CMAKE_CURRENT_SOURCE_DIR}/corpus/${name}")
  set(inputs "")
  if(EXISTS "${corpus}")
    set(inputs "${CMAKE_CURRENT_BINARY_DIR}/found/${name}" "${corpus}")  # new ones go to the first
    file(MAKE_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/found/${name}")
  endif()
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS} "${PROJECT_SOURCE_DIR}/src/core/status.cpp")
  target_include_directories(${name} PRIVATE
    "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/tests")
  target_compile_options(${name} PRIVATE -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer,address,undefined)
  kolo_warnings(${name})
  if(NOT TARGET fuzzers)
    add_custom_target(fuzzers)  # all of them
  endif()
  add_dependencies(fuzzers ${name})
  add_test(NAME ${name} COMMAND ${name} -max_len=${ARG_MAX_LENGTH} -max_total_time=${ARG_SECONDS} -rss_limit_mb=512 -seed=1
    ${inputs})
  math(EXPR timeout "${ARG_SECONDS} + 60")
  # The address sanitizer keeps freed memory, which counts for the limit.
  set_tests_properties(${name} PROPERTIES TIMEOUT ${timeout} LABELS fuzz ENVIRONMENT "ASAN_OPTIONS=quarantine_size_mb=32")
endfunction()
