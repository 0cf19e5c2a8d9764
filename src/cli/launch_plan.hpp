// The launcher's command for a job: a pure function of what was asked and what was found.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/environment.hpp"
#include "cli/hosts.hpp"
#include "cli/placement.hpp"

namespace kolo::cli {

enum class LauncherKind : std::uint8_t { kUnknown, kOpenMpi4, kOpenMpi5, kHydra };

// From what `mpirun --version` prints.
LauncherKind launcher_kind(const std::string& version_text);
const char* name_of(LauncherKind kind);

struct LaunchRequest {
  LauncherKind kind = LauncherKind::kOpenMpi5;
  std::string mpirun;
  int size = 1;
  std::vector<Host> hosts;     // empty: this host, or the hosts of the batch job
  bool in_allocation = false;  // a batch system has given hosts, which the launcher asks for itself
  std::string own_host;
  int own_cores = 1;         // cores that this process may use
  int threads_per_rank = 0;  // 0: choose
  std::string bind_to;       // empty: choose
  bool allow_root = false;
  Variables environment;  // of this process
  Variables extra;        // -x NAME=VALUE, and -x NAME with the value it has
  std::vector<std::string> mpi_args;
  std::string rank_program;  // kolo-rank
  Rendezvous rendezvous;
  std::vector<std::string> program;
};

struct LaunchPlan {
  Variables set;  // to be set in the launcher's environment
  std::vector<std::string> command;
  bool is_local = true;         // no rank runs on another host
  bool oversubscribed = false;  // more ranks than cores on this host
};

// The launcher and its own options, without what it shall start.
std::vector<std::string> launcher_words(const LaunchRequest& request);

LaunchPlan plan_launch(const LaunchRequest& request);

// Whether every rank runs on the host that kolo run was started on.
bool is_local_job(const LaunchRequest& request);

// Whether a variable travels to other hosts without being asked to.
bool is_forwarded(const std::string& name);

// An address of rank 0's host that the ranks can use: 127.0.0.1 when all are on this host.
std::string rendezvous_address(const LaunchRequest& request, const Lookup& environment);

// "a b" becomes 'a b': text that a shell reads back as it was.
std::string shell_quoted(const std::string& word);
std::string shell_line(const LaunchPlan& plan);

}  // namespace kolo::cli
