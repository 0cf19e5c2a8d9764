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

// Of the calling thread.
CpuAccess cpu_access();

// A line of text, without its end; what is no such line decodes to nothing.
std::string encode(const CpuAccess& access);
CpuAccess decode_cpu_access(const std::string& text);

// The cores that a process has when all processes of its node compute: those that several may use
// are shared by them evenly, and so is each quota among the processes that it holds for.
double share_of_node(const std::vector<CpuAccess>& node, std::size_t process);

}  // namespace kolo
