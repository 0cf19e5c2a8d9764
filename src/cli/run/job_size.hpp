// The number of ranks of a job, and of each of its hosts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/batch/allocation.hpp"
#include "cli/batch/hosts.hpp"

namespace kolo::cli {

struct SizeRequest {
  std::optional<long> size;           // -np
  std::optional<long> gpus;           // --gpus: a rank each
  std::optional<long> gpus_per_host;  // --gpus-per-host
  std::vector<Host> hosts;  // -H or --hostfile; none: those of the batch job, or this host
  std::string own_host = {};
  bool has_loaders = false;  // which run on the further components of a heterogeneous job
};

struct JobSize {
  int size = 1;
  std::vector<Host> hosts;   // with the ranks that each can take; none: this host takes all
  int threads_per_rank = 0;  // of --cpus-per-task, where ranks share the CPUs of tasks; 0: not told
};

// Hosts are filled in their order, those of a batch job in the order that it has. Those of a batch
// job take the ranks that it has asked for; where that is one for each node, which is how a
// launcher is started, they take a rank for each GPU, or equal shares of -np. With --gpus a host
// takes --gpus-per-host ranks (else as many as the batch job has GPUs a node, else 8). Throws
// UsageError when no number is known, hosts may have different numbers of GPUs, or there are too
// few hosts, which it counts and names.
JobSize choose_job_size(const SizeRequest& request, const Allocation& allocation);

}  // namespace kolo::cli
