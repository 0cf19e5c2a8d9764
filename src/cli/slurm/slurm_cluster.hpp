// Describes a cluster, from the output of Slurm's own commands.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kolo::cli {

struct SlurmPartition {
  std::string name;
  bool is_default = false;
  bool is_up = true;
  std::optional<std::int64_t> most_seconds;   // limit of a job; nothing: no limit
  std::optional<std::int64_t> usual_seconds;  // of a job without --time; nothing: most_seconds
  std::optional<long> most_nodes;             // limit of a job; nothing: no limit
  long least_nodes = 0;
  std::optional<long> most_cpus_per_node;  // limit of a job, whatever the nodes have
  std::optional<long> most_mebibytes_per_node;
};

struct SlurmNode {
  std::string name;
  std::string partition;
  long cpus = 0;
  std::int64_t memory_mebibytes = 0;
  long gpus = 0;
};

// Parses "30" (minutes), "90:00", "08:00:00", "7-00" or "7-00:00:00", as in sbatch(1). Returns
// nothing if the text is not a time, and kUnlimitedSeconds for "UNLIMITED", "infinite" and "0".
std::optional<std::int64_t> slurm_seconds(const std::string& text);
inline constexpr std::int64_t kUnlimitedSeconds = INT64_MAX;

// Parses "250000" (MiB) or "16G". Returns nothing if the text is not a size.
std::optional<std::int64_t> slurm_mebibytes(const std::string& text);

// Counts the GPUs in a node's generic resources: "gpu:h100:4(S:0-1),nvme:1" has 4, "(null)" none.
long slurm_gpus(const std::string& resources);

// Reads the output of `scontrol show partition --oneliner`.
std::vector<SlurmPartition> slurm_partitions(const std::string& output);

// Reads the output of `sinfo --noheader --Node --format=kSlurmNodeFormat`: a line for each node of
// each partition.
inline constexpr const char* kSlurmNodeFormat = "%N %R %c %m %G";
std::vector<SlurmNode> slurm_nodes(const std::string& output);

}  // namespace kolo::cli
