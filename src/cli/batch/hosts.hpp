// Host lists and host files: the hosts on which ranks may run.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/usage_error.hpp"

namespace kolo::cli {

struct Host {
  std::string name;
  int slots = 1;
  bool slots_given = false;  // by a number, or by naming the host more than once
};

// Parses "node1:4,node2:4". A host without a number has 1 slot; a repeated host adds its slots.
// Throws UsageError that names the entry.
std::vector<Host> parse_host_list(const std::string& text);

// Parses a host file with one host a line: Open MPI's form "node1 slots=4", or MPICH's "node1:4".
// '#' begins a comment. Throws UsageError that names file and line.
std::vector<Host> parse_hostfile(const std::string& text, const std::string& file_name);

int total_slots(const std::vector<Host>& hosts);

// Returns "node1:4,node2:4".
std::string to_string(const std::vector<Host>& hosts);

// Whether `name` means the host called own_name.
bool is_this_host(const std::string& name, const std::string& own_name);

// Look-ups of IPv4 addresses, in dotted form.
struct HostAddresses {
  std::function<std::vector<std::string>(const std::string& name)> of_name;  // none: unknown
  std::function<std::vector<std::string>()> own;  // of this host's interfaces
};

// Throws UsageError that names both hosts if two entries are one host, or if the launcher would
// take them for one: it would hang, or start all ranks on one of them. Launchers compare whole
// names (`whole_names`), or only the part before the first dot.
void check_that_hosts_differ(const std::vector<Host>& hosts, const std::string& own_name,
                             bool whole_names, const HostAddresses& addresses);

}  // namespace kolo::cli
