#include "core/host.hpp"

#include <sched.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace kolo {

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "an unknown host";
  return name.data();
}

std::string program_name() {
  return program_invocation_short_name;  // the C library's
}

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  return std::getline(file, id) ? id : "";
}

std::string machine_id() {
  std::error_code error;
  const std::string network = std::filesystem::read_symlink("/proc/self/ns/net", error);
  const std::string boot = boot_id();
  return error || boot.empty() ? std::string() : boot + "/" + network;
}

std::vector<int> usable_cores(int process) {
  cpu_set_t set;
  CPU_ZERO(&set);
  // Fails on machines with more CPUs than the set holds.
  if (::sched_getaffinity(process, sizeof set, &set) != 0) return {};
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

std::string core_list(const std::vector<int>& cores) {
  std::string list;
  for (std::size_t i = 0; i < cores.size();) {
    std::size_t last = i;
    while (last + 1 < cores.size() && cores[last + 1] == cores[last] + 1) ++last;
    list += (list.empty() ? "" : ",") + std::to_string(cores[i]);
    if (last > i) list += "-" + std::to_string(cores[last]);
    i = last + 1;
  }
  return list;
}

}  // namespace kolo
