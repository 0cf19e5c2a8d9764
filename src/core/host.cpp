#include "core/host.hpp"

#include <sched.h>
#include <unistd.h>

#include <array>

namespace kolo {

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "an unknown host";
  return name.data();
}

std::string core_list() {
  cpu_set_t set;
  CPU_ZERO(&set);
  // Fails on machines with more CPUs than the set holds.
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return "";
  std::string list;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &set)) continue;
    int last = core;
    while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &set)) ++last;
    if (!list.empty()) list += ',';
    list += std::to_string(core);
    if (last > core) list += '-' + std::to_string(last);
    core = last;
  }
  return list;
}

}  // namespace kolo
