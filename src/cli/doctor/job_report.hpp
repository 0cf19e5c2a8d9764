// The report of kolo doctor --job: each rank's description of itself, and the problems of the job.
// Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/doctor/findings.hpp"
#include "core/control_group.hpp"

namespace kolo::cli {

struct RankReport {
  int rank = 0;
  int local_rank = 0;
  int node = 0;  // 0, 1, ... in the order of the nodes' first ranks
  std::string host;
  std::vector<int> cores;  // it may run on these; a core is named by its lowest hardware thread
  std::vector<CpuQuota> quotas;          // of CPU time, from its own control group outwards
  int threads = 0;                       // OMP_NUM_THREADS; 0: not set
  std::vector<std::string> devices;      // visible GPUs, with names that are unique within a node
  int node_devices = 0;                  // that the batch system gave on the node; 0: unknown
  std::int64_t memory_limit_bytes = -1;  // -1: none
  double copy_gigabytes_per_second = 0;  // memory to memory, while all ranks copy
  double network_gigabytes_per_second = 0;  // of a node's first rank: from the previous node
};

std::string encode(const RankReport& report);  // one line, without a newline
RankReport decode(const std::string& line);    // throws std::invalid_argument

// Returns the device that a rank should use, or -1 if it sees none.
int device_of(const RankReport& report);

// Returns a row for each rank, in rank order, and then the network speeds between nodes.
std::string job_table(const std::vector<RankReport>& reports);
// Returns a section for each rank.
std::vector<std::pair<std::string, Rows>> job_sections(const std::vector<RankReport>& reports);

std::vector<Finding> judge_job(const std::vector<RankReport>& reports);

}  // namespace kolo::cli
