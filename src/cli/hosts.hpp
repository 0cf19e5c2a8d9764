// Where ranks may run: host lists and host files.
#pragma once

#include <string>
#include <vector>

#include "cli/usage_error.hpp"

namespace kolo::cli {

struct Host {
  std::string name;
  int slots = 1;
};

// "node1:4,node2:4"; without a number a host has 1 slot. A host named again adds its slots. Throws
// UsageError that names the entry.
std::vector<Host> parse_host_list(const std::string& text);

// Open MPI's form, "node1 slots=4", one host a line, '#' begins a comment; MPICH's "node1:4" too.
// Throws UsageError that names file and line.
std::vector<Host> parse_hostfile(const std::string& text, const std::string& file_name);

int total_slots(const std::vector<Host>& hosts);

// "node1:4,node2:4"
std::string to_string(const std::vector<Host>& hosts);

// How many ranks to start: the number asked for (0: not given), else all slots. Throws UsageError
// when neither is known, when the number is below 1, or when the hosts have too few slots.
int choose_size(bool size_given, long size, const std::vector<Host>& hosts);

// Whether a name means the host called own_name.
bool is_this_host(const std::string& name, const std::string& own_name);

// First host of Slurm's notation: "node[03-05,9],gpu1" gives "node03".
std::string first_slurm_host(const std::string& node_list);

}  // namespace kolo::cli
