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
  std::optional<std::int64_t> most_seconds;   // of a job; nothing: no limit
  std::optional<std::int64_t> usual_seconds;  // of a job that gives no --time; nothing: the most
  std::optional<long> most_nodes;             // likewise
  long least_nodes = 0;
  std::optional<long> most_cpus_per_node;  // that jobs may have, whatever the nodes have
  std::optional<long> most_mebibytes_per_node;
};

struct SlurmNode {
  std::string name;
  std::string partition;
  long cpus = 0;
  std::int64_t memory_mebibytes = 0;
  long gpus = 0;
};

// "30", "90:00", "08:00:00", "7-00", "7-00:00:00": minutes, or what the colons and the dash say, as
// sbatch(1) has it. Nothing if it is no time; kUnlimitedSeconds for "UNLIMITED", "infinite" and
// "0".
std::optional<std::int64_t> slurm_seconds(const std::string& text);
inline constexpr std::int64_t kUnlimitedSeconds = INT64_MAX;

// "250000", "16G": MiB, or what the letter says. Nothing if it is no size.
std::optional<std::int64_t> slurm_mebibytes(const std::string& text);

// The GPUs among a node's generic resources: "gpu:h100:4(S:0-1),nvme:1" has 4, "(null)" none.
long slurm_gpus(const std::string& resources);

// Reads the output of `scontrol show partition --oneliner`.
std::vector<SlurmPartition> slurm_partitions(const std::string& output);

// Reads the output of `sinfo --noheader --Node --format=kSlurmNodeFormat`: a line for each node of
// each partition.
inline constexpr const char* kSlurmNodeFormat = "%N %R %c %m %G";
std::vector<SlurmNode> slurm_nodes(const std::string& output);

}  // namespace kolo::cli
