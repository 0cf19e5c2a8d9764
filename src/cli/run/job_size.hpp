// Chooses the number of ranks of a job, and of each of its hosts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/batch/allocation.hpp"
#include "cli/batch/hosts.hpp"

namespace kolo::cli {

struct SizeRequest {
  std::optional<long> size;           // -np
  std::optional<long> gpus;           // --gpus: one rank each
  std::optional<long> gpus_per_host;  // --gpus-per-host
  std::vector<Host> hosts;  // -H or --hostfile; none: those of the batch job, or this host
  std::string own_host = {};
  bool has_loaders = false;  // they run on the further components of a heterogeneous job
};

struct JobSize {
  int size = 1;
  std::vector<Host> hosts;   // their slots are ranks that they can take; none: this host takes all
  int threads_per_rank = 0;  // from --cpus-per-task, if ranks share the CPUs of tasks; 0: unknown
};

// Chooses the ranks of each host. Hosts are filled in their order, those of a batch job in the
// job's order. The hosts of a batch job take the ranks that it has asked for. If that is one for
// each node, which is how a launcher is started, they take a rank for each GPU, or equal shares of
// -np. With --gpus, a host takes --gpus-per-host ranks, otherwise as many as the batch job has GPUs
// a node, otherwise 8. Throws UsageError if no number is known, if hosts may have different numbers
// of GPUs, or if there are too few hosts, which it counts and names.
JobSize choose_job_size(const SizeRequest& request, const Allocation& allocation);

}  // namespace kolo::cli
