// A batch script for a program, and why a cluster could not run it: pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/slurm/slurm_cluster.hpp"

namespace kolo::cli {

// A second component of the job, in which loader processes run: see kolo::delivery.
struct SlurmLoaders {
  long count = 1;
  std::string partition;  // "": that of the ranks
  long nodes = 1;
  std::optional<long> cpus_per_task;  // not given: 1
  std::string memory_per_cpu;         // "": the cluster's default
  std::vector<std::string> options;   // of kolo run: --cpus and what else is for loader processes
};

struct SlurmRequest {
  std::string partition;  // or several, between commas; "": the cluster's default
  long nodes = 1;
  std::optional<long> gpus_per_node;
  std::optional<long> tasks_per_node;  // ranks; not given: one for each GPU, else 1
  std::optional<long> cpus_per_task;   // not given: Slurm's default, 1
  std::string memory;                  // of a node, "": the cluster's default
  std::string memory_per_cpu;
  std::string time;  // "": the partition's default
  std::string job_name;
  std::string output = "%x-%j.log";
  std::vector<std::string> more;  // lines behind #SBATCH
  std::optional<SlurmLoaders> loaders;
  std::vector<std::string> program;  // with its arguments
};

long tasks_per_node(const SlurmRequest& request);

// The faults of a request that no cluster could grant.
std::vector<std::string> faults_of(const SlurmRequest& request);

// Why no nodes of a cluster can run it, where there are no such faults; empty where some can.
std::vector<std::string> refusals_of(const SlurmRequest& request,
                                     const std::vector<SlurmPartition>& partitions,
                                     const std::vector<SlurmNode>& nodes);

// Like the scripts of slurm/, with whose job.sh in `folder` it works. Without --time the partition
// says how long the job may run, where partitions are known.
std::string slurm_script(const SlurmRequest& request, const std::string& folder,
                         const std::vector<SlurmPartition>& partitions);

// sbatch takes variables of the environment (SBATCH_PARTITION) for more than what the script says:
// those that would overrule this script, which is what was asked for, and checked.
std::vector<std::string> overruling_variables(const std::string& script);

}  // namespace kolo::cli
