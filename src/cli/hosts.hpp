// Where ranks may run: host lists and host files.
#pragma once

#include <string>
#include <vector>

#include "cli/usage_error.hpp"

namespace kolo::cli {

struct Host {
  std::string name;
  int slots = 1;
  bool slots_given = false;  // by a number, or by naming it more than once
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

// Whether a name means the host called own_name.
bool is_this_host(const std::string& name, const std::string& own_name);

}  // namespace kolo::cli
