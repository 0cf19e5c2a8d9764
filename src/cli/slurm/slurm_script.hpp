// Writes a batch script for a program, and finds why a cluster could not run it: pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/slurm/slurm_cluster.hpp"

namespace kolo::cli {

// A second component of the job, in which loader processes run: see kolo::delivery.
struct SlurmLoaders {
  long count = 1;
  std::string partition;  // "": the ranks' partition
  long nodes = 1;
  std::optional<long> cpus_per_task;  // not given: 1
  std::string memory_per_cpu;         // "": the cluster's default
  std::vector<std::string> options;   // of kolo run: --cpus and others for loader processes
};

struct SlurmRequest {
  std::string partition;  // several are separated by commas; "": the cluster's default
  long nodes = 1;
  std::optional<long> gpus_per_node;
  std::optional<long> tasks_per_node;  // ranks; not given: one for each GPU, otherwise 1
  std::optional<long> cpus_per_task;   // not given: Slurm's default, 1
  std::string memory;                  // per node; "": the cluster's default
  std::string memory_per_cpu;
  std::string time;  // "": the partition's default
  std::string job_name;
  std::string output = "%x-%j.log";
  std::vector<std::string> more;  // what follows #SBATCH on further lines
  std::optional<SlurmLoaders> loaders;
  std::vector<std::string> program;  // with its arguments
};

long tasks_per_node(const SlurmRequest& request);

// Returns the faults of a request that no cluster could grant.
std::vector<std::string> faults_of(const SlurmRequest& request);

// Returns why no nodes of a cluster can run a request without such faults; empty if some can.
std::vector<std::string> refusals_of(const SlurmRequest& request,
                                     const std::vector<SlurmPartition>& partitions,
                                     const std::vector<SlurmNode>& nodes);

// Returns a script like those of slurm/; it uses their job.sh in `folder`. Without --time, the
// partition says how long the job may run, if partitions are known.
std::string slurm_script(const SlurmRequest& request, const std::string& folder,
                         const std::vector<SlurmPartition>& partitions);

// Returns the variables of the environment (SBATCH_PARTITION) that would overrule this script,
// which is what was requested and checked. To sbatch, such variables count more than the script.
std::vector<std::string> overruling_variables(const std::string& script);

}  // namespace kolo::cli
