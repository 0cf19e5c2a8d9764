#include "cli/process/binding.hpp"

#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <tuple>

#include "cli/process/environment.hpp"
#include "cli/process/system.hpp"
#include "core/file.hpp"
#include "core/host.hpp"

namespace kolo::cli {
namespace {

std::string folder_of(int cpu) {
  return "/sys/devices/system/cpu/cpu" + std::to_string(cpu);
}

int package_of(int cpu) {
  const auto number = parse_integer(first_line(folder_of(cpu) + "/topology/physical_package_id"));
  return static_cast<int>(number.value_or(0));
}

// Finds the NUMA node by an entry "node1", say, in the CPU's folder.
int numa_node_of(int cpu) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder_of(cpu), error)) {
    const std::string name = entry.path().filename();
    const auto number = name.rfind("node", 0) == 0 ? parse_integer(name.substr(4)) : std::nullopt;
    if (number) return static_cast<int>(*number);
  }
  return 0;
}

}  // namespace

std::vector<Core> usable_cores_in_order() {
  return cores_in_order(usable_cores());
}

std::vector<Core> cores_in_order(const std::vector<int>& cpus) {
  std::map<std::string, Core> by_siblings;
  for (const int cpu : cpus) {
    std::string siblings = first_line(folder_of(cpu) + "/topology/thread_siblings_list");
    if (siblings.empty()) siblings = std::to_string(cpu);
    Core& core = by_siblings[siblings];
    if (core.cpus.empty()) {
      const auto lowest = parse_integer(siblings.substr(0, siblings.find_first_of(",-")));
      core = {{}, package_of(cpu), numa_node_of(cpu), static_cast<int>(lowest.value_or(cpu))};
    }
    core.cpus.push_back(cpu);
  }
  std::vector<Core> cores;
  cores.reserve(by_siblings.size());
  for (auto& [siblings, core] : by_siblings) cores.push_back(std::move(core));
  std::sort(cores.begin(), cores.end(), [](const Core& a, const Core& b) {
    return std::tie(a.package, a.numa_node, a.cpus) < std::tie(b.package, b.numa_node, b.cpus);
  });
  return cores;
}

std::vector<int> share_of_cores(const std::vector<Core>& cores, int local_rank, int local_size,
                                int least_cores) {
  if (local_rank < 0 || local_rank >= local_size) return {};
  const std::size_t count = cores.size() / static_cast<std::size_t>(local_size);
  if (count == 0 || count < static_cast<std::size_t>(least_cores)) return {};
  const std::size_t begin =
      static_cast<std::size_t>(local_rank) * cores.size() / static_cast<std::size_t>(local_size);
  std::vector<int> cpus;
  for (std::size_t i = begin; i < begin + count; ++i) {
    cpus.insert(cpus.end(), cores[i].cpus.begin(), cores[i].cpus.end());
  }
  std::sort(cpus.begin(), cpus.end());
  return cpus;
}

void bind_to_cpus(const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(cpu, &set);
  check(::sched_setaffinity(0, sizeof set, &set), "sched_setaffinity");
}

}  // namespace kolo::cli
