// What the control groups of this process allow it. Containers and batch systems set limits there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kolo {

// A quota of CPU time, which all processes of a control group have together.
struct CpuQuota {
  double cores = 0;   // seconds of CPU time in a second
  std::string group;  // identifies the control group among all of this machine
};

// The quotas of the process's own control group and of each group around it that it can see: all of
// them hold. Reads versions 1 and 2 of control groups. A test has the files of /proc and /sys in
// `root`.
std::vector<CpuQuota> cpu_quotas(const std::string& root = "");

// The least of the quotas, in cores; nothing where there is no quota.
std::optional<double> least_cores(const std::vector<CpuQuota>& quotas);

// The least limit of memory among the same groups, in bytes; -1: there is no limit.
std::int64_t memory_limit(const std::string& root = "");

// Bytes of memory that this process can still get: what this machine can give without swapping
// (MemAvailable of /proc/meminfo), and what the same groups leave, whose page cache counts as free.
// The largest number if nothing is known.
std::uint64_t available_memory(const std::string& root = "");

}  // namespace kolo
