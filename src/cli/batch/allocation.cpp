#include "cli/batch/allocation.hpp"

#include <algorithm>
#include <sstream>

#include "cli/batch/slurm_notation.hpp"
#include "cli/usage_error.hpp"

namespace kolo::cli {
namespace {

int to_number(const std::optional<std::string>& text) {
  const std::optional<long> value = text ? parse_integer(*text) : std::nullopt;
  return value && *value > 0 && *value < 1'000'000 ? static_cast<int>(*value) : 0;
}

int number_of(const Lookup& environment, const std::string& name) {
  return to_number(environment(name));
}

// Step ID of an interactive shell (SLURM_INTERACTIVE_STEP). The step has one node, but the shell
// serves the whole job.
constexpr const char* kInteractiveStep = "4294967290";

// Refuses a heterogeneous job of which mpirun cannot reach all hosts. The components are jobs of
// their own, and srun, by which a launcher starts its daemons, reaches only the first.
void check_step_of_components(const Lookup& environment, const std::vector<Host>& hosts) {
  const int components = number_of(environment, "SLURM_HET_SIZE");
  const std::optional<std::string> node_list = environment("SLURM_JOB_NODELIST_HET_GROUP_0");
  if (components < 2 || !node_list || hosts.size() < 2) return;
  const std::vector<std::string> first = slurm_hosts(*node_list);
  const auto is_reached = [&](const Host& host) {
    return std::find(first.begin(), first.end(), host.name) != first.end();
  };
  if (std::all_of(hosts.begin(), hosts.end(), is_reached)) return;
  throw UsageError(
      "this job of Slurm is heterogeneous, and mpirun reaches the hosts of its first component "
      "alone; have srun start the program itself, without kolo run: srun --het-group=0-" +
      std::to_string(components - 1) + " --mpi=pmix PROGRAM");
}

std::vector<Host> slurm_hosts_of(const std::string& node_list, const std::string& tasks) {
  const std::vector<std::string> names = slurm_hosts(node_list);
  const std::vector<int> counts = slurm_counts(tasks);
  std::vector<Host> hosts;
  for (std::size_t i = 0; i < names.size(); ++i)
    hosts.push_back({names[i], counts.size() == names.size() ? std::max(1, counts[i]) : 1});
  return hosts;
}

std::vector<Component> other_components(const Lookup& environment) {
  std::vector<Component> others;
  const int components = number_of(environment, "SLURM_HET_SIZE");
  for (int i = 1; i < components; ++i) {
    const std::string end = "_HET_GROUP_" + std::to_string(i);
    Component other;
    other.number = i;
    other.hosts = slurm_hosts_of(environment("SLURM_JOB_NODELIST" + end).value_or(""),
                                 environment("SLURM_TASKS_PER_NODE" + end).value_or(""));
    others.push_back(std::move(other));
  }
  return others;
}

// Finds the hosts of a step, if this is one, or of the job. A step may have fewer nodes than its
// job, or nodes of several components.
std::optional<Allocation> find_slurm(const Lookup& environment) {
  const std::optional<std::string> step = environment("SLURM_STEP_ID");
  const bool is_program = step && *step != kInteractiveStep && environment("SLURM_STEP_NODELIST");
  const char* const list_name = is_program ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST";
  const std::optional<std::string> node_list = environment(list_name);
  if (!node_list) return std::nullopt;
  Allocation found;
  found.system = BatchSystem::kSlurm;
  found.in_step = step.has_value();
  const char* const counts_name = is_program ? "SLURM_STEP_TASKS_PER_NODE" : "SLURM_TASKS_PER_NODE";
  found.hosts = slurm_hosts_of(*node_list, environment(counts_name).value_or(""));
  if (is_program) {
    check_step_of_components(environment, found.hosts);
  } else {
    found.others = other_components(environment);
  }
  const std::vector<int> cpus = slurm_counts(environment("SLURM_JOB_CPUS_PER_NODE").value_or(""));
  if (!cpus.empty()) found.cpus_per_host = *std::min_element(cpus.begin(), cpus.end());
  // Looks up an option of the job. In the batch script of a heterogeneous job its variable ends in
  // _HET_GROUP_0.
  const auto asked = [&](const std::string& name) {
    const std::optional<std::string> value = environment(name);
    return value || is_program ? value : environment(name + "_HET_GROUP_0");
  };
  found.cpus_per_rank = to_number(asked("SLURM_CPUS_PER_TASK"));
  found.gpus_per_host = number_of(environment, "SLURM_GPUS_ON_NODE");
  // With --gpus, Slurm decides how many GPUs each node gets.
  found.gpus_may_differ = found.hosts.size() > 1 && asked("SLURM_GPUS") &&
                          !asked("SLURM_GPUS_PER_NODE") && !asked("SLURM_GPUS_PER_TASK");
  return found;
}

// Reads a file with a host on each line; a host appears once per slot.
std::vector<Host> hosts_in_lines(const std::string& variable, const std::string& name,
                                 const ReadFile& read) {
  const std::optional<std::string> text = read(name);
  if (!text) {
    throw UsageError(variable + " names '" + name +
                     "', which cannot be read; give the hosts by -H");
  }
  return parse_hostfile(*text, variable + " (" + name + ")");
}

int least_slots(const std::vector<Host>& hosts) {
  const auto has_less = [](const Host& a, const Host& b) { return a.slots < b.slots; };
  return std::min_element(hosts.begin(), hosts.end(), has_less)->slots;
}

// Reads PBS_NODEFILE, which has a line for each CPU of a host, or for each of its processes. NCPUS
// counts this host's CPUs.
std::optional<Allocation> find_pbs(const Lookup& environment, const ReadFile& read) {
  const std::optional<std::string> file = environment("PBS_NODEFILE");
  if (!file) return std::nullopt;
  Allocation found;
  found.system = BatchSystem::kPbs;
  found.hosts = hosts_in_lines("PBS_NODEFILE", *file, read);
  found.cpus_per_host = std::max(least_slots(found.hosts), number_of(environment, "NCPUS"));
  return found;
}

// Reads LSF's host file, or LSB_MCPU_HOSTS ("hostA 4 hostB 2"), or LSB_HOSTS, which exists only in
// small jobs ("hostA hostA hostB").
std::vector<Host> lsf_hosts(const Lookup& environment, const ReadFile& read) {
  if (const auto file = environment("LSB_DJOB_HOSTFILE")) {
    return hosts_in_lines("LSB_DJOB_HOSTFILE", *file, read);
  }
  std::string list;
  std::string name;
  std::string slots;
  if (const auto pairs = environment("LSB_MCPU_HOSTS")) {
    std::istringstream words(*pairs);
    while (words >> name) {
      if (!(words >> slots)) {
        throw UsageError("LSB_MCPU_HOSTS='" + *pairs + "' is not understood: a number is missing");
      }
      list.append(list.empty() ? "" : ",").append(name).append(":").append(slots);
    }
  } else if (const auto names = environment("LSB_HOSTS")) {
    std::istringstream words(*names);
    while (words >> name) list.append(list.empty() ? "" : ",").append(name);
  }
  return list.empty() ? std::vector<Host>() : parse_host_list(list);
}

std::optional<Allocation> find_lsf(const Lookup& environment, const ReadFile& read) {
  Allocation found;
  found.system = BatchSystem::kLsf;
  found.hosts = lsf_hosts(environment, read);
  if (found.hosts.empty()) return std::nullopt;
  found.cpus_per_host = least_slots(found.hosts);
  return found;
}

}  // namespace

const char* name_of(BatchSystem system) {
  switch (system) {
    case BatchSystem::kSlurm:
      return "Slurm";
    case BatchSystem::kPbs:
      return "PBS";
    case BatchSystem::kLsf:
      return "LSF";
    case BatchSystem::kNone:
      break;
  }
  return "no batch system";
}

Allocation find_allocation(const Lookup& environment, const ReadFile& read) {
  if (const auto slurm = find_slurm(environment)) return *slurm;
  if (const auto pbs = find_pbs(environment, read)) return *pbs;
  return find_lsf(environment, read).value_or(Allocation{});
}

}  // namespace kolo::cli
