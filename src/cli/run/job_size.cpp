#include "cli/run/job_size.hpp"

#include <algorithm>

#include "cli/usage_error.hpp"

namespace kolo::cli {
namespace {

constexpr long kMostRanks = 1'000'000;
constexpr int kUsualGpusPerHost = 8;

int checked(const char* option, long value) {
  if (value < 1 || value > kMostRanks) {
    throw UsageError(std::string(option) + " " + std::to_string(value) + ": must be from 1 to " +
                     std::to_string(kMostRanks));
  }
  return static_cast<int>(value);
}

std::string counted(int count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

bool has_one_slot_each(const std::vector<Host>& hosts) {
  return std::all_of(hosts.begin(), hosts.end(), [](const Host& host) { return host.slots == 1; });
}

// Returns the chosen hosts in the batch job's order, with the names that they have there.
std::vector<Host> chosen_from(const Allocation& allocation, const std::string& own_host,
                              const std::vector<Host>& hosts) {
  const auto is_named = [&](const Host& known, const std::string& name) {
    const bool is_local = name == "localhost" || name == "127.0.0.1";
    return is_this_host(is_local ? own_host : name, known.name);
  };
  for (const Host& host : hosts) {
    const auto is_it = [&](const Host& known) { return is_named(known, host.name); };
    if (std::none_of(allocation.hosts.begin(), allocation.hosts.end(), is_it)) {
      throw UsageError("host " + host.name + " does not belong to this job of " +
                       name_of(allocation.system) + ", which has " + to_string(allocation.hosts));
    }
  }
  std::vector<Host> chosen;
  for (const Host& known : allocation.hosts) {
    Host all{known.name, 0, false};  // the user may have named it in two ways
    for (const Host& host : hosts) {
      if (!is_named(known, host.name)) continue;
      all.slots += host.slots;
      all.slots_given = all.slots_given || host.slots_given;
    }
    if (all.slots > 0) chosen.push_back(all);
  }
  return chosen;
}

// Returns the threads per rank: the CPUs of a host's tasks, shared by its ranks, on the host where
// that is least; 0 if unknown.
int threads_on(const std::vector<Host>& hosts, const Allocation& allocation) {
  if (allocation.cpus_per_rank == 0) return 0;
  int least = 0;
  for (const Host& host : hosts) {
    for (const Host& known : allocation.hosts) {
      if (known.name != host.name) continue;
      const int threads = std::max(1, allocation.cpus_per_rank * known.slots / host.slots);
      least = least == 0 ? threads : std::min(least, threads);
    }
  }
  return least;
}

int gpus_of_each(const Allocation& allocation) {
  if (allocation.gpus_may_differ) {
    throw UsageError(
        "the job asked for a total of GPUs (--gpus), so the number on each host is not known; ask "
        "Slurm for --gpus-per-node, or give -np, or --gpus with --gpus-per-host");
  }
  return allocation.gpus_per_host;
}

JobSize size_by_gpus(const SizeRequest& request, const Allocation& allocation,
                     std::vector<Host> hosts) {
  if (request.size)
    throw UsageError("-np and --gpus exclude each other: --gpus starts one rank per GPU");
  const int gpus = checked("--gpus", *request.gpus);
  int each = request.gpus_per_host ? checked("--gpus-per-host", *request.gpus_per_host)
                                   : gpus_of_each(allocation);
  if (each == 0) each = kUsualGpusPerHost;
  const bool is_this_host_alone = hosts.empty();
  if (is_this_host_alone) hosts = {{"localhost", 1, false}};
  for (Host& host : hosts) {
    if (!host.slots_given) host.slots = each;
  }
  const int there = total_slots(hosts);
  if (there < gpus) {
    const int lacking = (gpus - there + each - 1) / each;
    throw UsageError(
        "--gpus " + std::to_string(gpus) + " lacks " + counted(lacking, "host") + " of " +
        counted(each, "GPU") + ": " + (is_this_host_alone ? "this host alone" : to_string(hosts)) +
        " gives " + std::to_string(there) +
        "; name more hosts (-H, --hostfile), or say what a host has (" + "--gpus-per-host)");
  }
  return {gpus, is_this_host_alone ? std::vector<Host>() : hosts, threads_on(hosts, allocation)};
}

void refuse_components(const Allocation& allocation) {
  const std::size_t others = allocation.others.size();
  throw UsageError("this job of Slurm is heterogeneous, with " + std::to_string(others + 1) +
                   " components, and mpirun reaches the hosts of the first alone. To start ranks "
                   "on all of them: srun --het-group=0-" +
                   std::to_string(others) + " --mpi=pmix PROGRAM. On the first: kolo run -H " +
                   to_string(allocation.hosts) +
                   ". Ranks on the first and loader processes on the others: kolo run --cpus C");
}

}  // namespace

JobSize choose_job_size(const SizeRequest& request, const Allocation& allocation) {
  const bool is_of_batch_job = request.hosts.empty() && !allocation.hosts.empty();
  std::vector<Host> hosts = is_of_batch_job ? allocation.hosts : request.hosts;
  if (is_of_batch_job && !allocation.others.empty() && !request.has_loaders)
    refuse_components(allocation);
  if (is_of_batch_job) {
    for (Host& host : hosts) host.slots_given = false;  // they may count cores, and not GPUs
  } else if (allocation.system == BatchSystem::kSlurm) {
    hosts = chosen_from(allocation, request.own_host, hosts);
  }
  if (request.gpus) return size_by_gpus(request, allocation, std::move(hosts));
  if (request.gpus_per_host) throw UsageError("--gpus-per-host is for --gpus");
  if (!request.size && hosts.empty()) {
    throw UsageError(
        "how many ranks? Give -np N, --gpus N, or hosts with slots (-H node1:4,node2:4)");
  }
  const int asked = request.size ? checked("-np", *request.size) : 0;
  if (is_of_batch_job && has_one_slot_each(hosts)) {
    const int count = static_cast<int>(hosts.size());
    const int each =
        asked > 0 ? (asked + count - 1) / count : std::max(1, gpus_of_each(allocation));
    for (Host& host : hosts) host.slots = each;
  }
  const int slots = total_slots(hosts);
  if (!hosts.empty() && asked > slots) {
    throw UsageError(
        "-np " + std::to_string(asked) + " needs " + std::to_string(asked) +
        " slots, but the hosts have " + std::to_string(slots) + ": " + to_string(hosts) +
        (is_of_batch_job ? "; ask " + std::string(name_of(allocation.system)) + " for more tasks"
                         : "; give more hosts, or more slots on them (host:slots)"));
  }
  return {asked > 0 ? asked : slots, hosts, threads_on(hosts, allocation)};
}

}  // namespace kolo::cli
