// The cores that a process may use, and its share of them among the processes of its node.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/control_group.hpp"

namespace kolo {

struct CpuAccess {
  std::vector<int> cores;  // on which it may run; never empty
  std::vector<CpuQuota> quotas;
};

// Returns the access of the calling thread.
CpuAccess cpu_access();

// Convert to and from a line of text, without its end. Text that is no such line decodes to
// nothing.
std::string encode(const CpuAccess& access);
CpuAccess decode_cpu_access(const std::string& text);

// Returns the cores that a process has when all processes of its node compute. Processes share
// evenly the cores that several of them may use, and each quota that holds for several of them.
double share_of_node(const std::vector<CpuAccess>& node, std::size_t process);

}  // namespace kolo
