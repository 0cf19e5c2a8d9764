// Reads Slurm's notation for lists of hosts and of numbers.
#pragma once

#include <string>
#include <vector>

namespace kolo::cli {

// Expands Slurm's notation for hosts: "node[03-05,9]-ib,gpu1" means node03-ib, node04-ib,
// node05-ib, node9-ib, gpu1. Throws UsageError.
std::vector<std::string> slurm_hosts(const std::string& node_list);

// Expands Slurm's notation for one number per node: "2(x3),1" means 2, 2, 2, 1. Returns an empty
// list if the text has another form.
std::vector<int> slurm_counts(const std::string& counts);

}  // namespace kolo::cli
