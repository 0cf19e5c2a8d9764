// Describes this machine, as far as the operating system shows it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/process/environment.hpp"

namespace kolo::cli {

// Returns the "built with" rows: component and value.
using Rows = std::vector<std::pair<std::string, std::string>>;
Rows built_in();
bool has_cuda();               // whether CUDA is built in
std::string mpi_built_with();  // path of MPI's library

struct Machine {
  std::string host;
  int cores = 1;                    // that this process may run on
  int online_cpus = 1;              // of the machine, hardware threads
  std::string affinity;             // "0-3,8"
  std::optional<double> cpu_quota;  // of the control group, in cores; nothing: no quota
  std::int64_t memory_bytes = 0;
  std::int64_t memory_available_bytes = 0;
  std::int64_t memory_limit_bytes = -1;  // of the control group; -1: none
  std::int64_t shm_bytes = -1;           // size of /dev/shm; -1: it does not exist
  std::int64_t shm_free_bytes = -1;
  std::int64_t huge_pages = 0;            // reserved
  std::string transparent_huge_pages;     // "madvise"
  std::string shared_huge_pages;          // "never"; for shared memory such as kolo's arena
  std::int64_t locked_memory_bytes = -1;  // limit; -1: none
  bool is_root = false;
};
Machine examine_machine();

std::string show_cores(double cores);        // "1.5 cores"
std::string show_bytes(std::int64_t bytes);  // "1.5 GiB", and "unlimited" for -1

}  // namespace kolo::cli
