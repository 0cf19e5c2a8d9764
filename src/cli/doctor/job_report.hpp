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
  int node = 0;  // 0, 1, ... in the order of their first ranks
  std::string host;
  std::vector<int> cores;  // on which it may run; a core is named by its lowest hardware thread
  std::vector<CpuQuota> quotas;          // of CPU time, from its own control group outwards
  int threads = 0;                       // OMP_NUM_THREADS; 0: not set
  std::vector<std::string> devices;      // that it sees; names that differ within a node
  int node_devices = 0;                  // what the batch system has given on the node; 0: not told
  std::int64_t memory_limit_bytes = -1;  // -1: none
  double copy_gigabytes_per_second = 0;  // of memory to memory, all ranks at the same time
  double network_gigabytes_per_second = 0;  // first rank of a node: from that of the node before
};

std::string encode(const RankReport& report);  // one line, without its end
RankReport decode(const std::string& line);    // throws std::invalid_argument

// The device that a rank is to use; -1: it sees none.
int device_of(const RankReport& report);

// A row for each rank, in the order of ranks; then the networks between nodes.
std::string job_table(const std::vector<RankReport>& reports);
// A section for each rank.
std::vector<std::pair<std::string, Rows>> job_sections(const std::vector<RankReport>& reports);

std::vector<Finding> judge_job(const std::vector<RankReport>& reports);

}  // namespace kolo::cli
