// Reads Slurm's notation for lists of hosts and of numbers.
#pragma once

#include <string>
#include <vector>

namespace kolo::cli {

// Slurm's notation for hosts: "node[03-05,9]-ib,gpu1" gives node03-ib, node04-ib, node05-ib,
// node9-ib, gpu1. Throws UsageError.
std::vector<std::string> slurm_hosts(const std::string& node_list);

// Slurm's notation for numbers of all nodes: "2(x3),1" gives 2, 2, 2, 1. Empty if it is none.
std::vector<int> slurm_counts(const std::string& counts);

}  // namespace kolo::cli
