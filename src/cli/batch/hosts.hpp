// Where ranks may run: host lists and host files.
#pragma once

#include <functional>
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

// Look-ups of addresses, IPv4 in its usual form.
struct HostAddresses {
  std::function<std::vector<std::string>(const std::string& name)> of_name;  // none: not known
  std::function<std::vector<std::string>()> own;  // of this host's interfaces
};

// Throws UsageError, which names both, where two of the hosts are one host, or where the launcher
// would take them for one: it would hang, or start all ranks on one of them. Launchers compare
// whole names, or only what stands before the first dot.
void check_that_hosts_differ(const std::vector<Host>& hosts, const std::string& own_name,
                             bool whole_names, const HostAddresses& addresses);

}  // namespace kolo::cli
