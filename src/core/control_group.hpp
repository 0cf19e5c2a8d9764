// Limits that the control groups of this process set. Containers and batch systems use them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kolo {

// A quota of CPU time, which all processes of a control group share.
struct CpuQuota {
  double cores = 0;   // seconds of CPU time in a second
  std::string group;  // identifies the control group among all of this machine
};

// Returns the quotas of the process's own control group and of each group around it that it can
// see. All of them hold. Reads versions 1 and 2 of control groups. A test has the files of /proc
// and /sys in `root`.
std::vector<CpuQuota> cpu_quotas(const std::string& root = "");

// Returns the smallest quota, in cores, or nothing if none is set.
std::optional<double> least_cores(const std::vector<CpuQuota>& quotas);

// Returns the smallest memory limit of the same groups, in bytes, or -1 if none is set.
std::int64_t memory_limit(const std::string& root = "");

// Returns the bytes of memory that this process can still get: the least of what the machine can
// give without swapping (MemAvailable of /proc/meminfo) and of what the same groups leave, where
// cached files that nobody has used lately count as free. The largest number if nothing is known.
std::uint64_t available_memory(const std::string& root = "");

}  // namespace kolo
