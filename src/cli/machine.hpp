// What this machine has, as far as the operating system tells.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cli/environment.hpp"

namespace kolo::cli {

// "built with" rows: what, and its value.
using Rows = std::vector<std::pair<std::string, std::string>>;
Rows built_in();

struct Machine {
  std::string host;
  int cores = 1;         // that this process may run on
  int online_cpus = 1;   // of the machine, hardware threads
  std::string affinity;  // "0-3,8"
  std::int64_t memory_bytes = 0;
  std::int64_t memory_available_bytes = 0;
  std::int64_t memory_limit_bytes = -1;  // of the control group; -1: none
  std::int64_t shm_bytes = -1;           // size of /dev/shm; -1: there is none
  std::int64_t shm_free_bytes = -1;
  std::int64_t huge_pages = 0;            // reserved
  std::string transparent_huge_pages;     // "madvise"
  std::string shared_huge_pages;          // "never": of shared memory, as kolo's arena is
  std::int64_t locked_memory_bytes = -1;  // limit; -1: none
  bool is_root = false;
};
Machine examine_machine();

// The least limit of a process's control groups (the text of /proc/PID/cgroup) and of those around
// them, in bytes; -1: none. `line_of` gives the first line of a file, "" where there is none.
std::int64_t memory_limit(const std::string& groups,
                          const std::function<std::string(const std::string&)>& line_of);

std::string show_bytes(std::int64_t bytes);  // "1.5 GiB", and "unlimited" for -1

}  // namespace kolo::cli
