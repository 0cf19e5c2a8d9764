// Builds the launcher's command for a job: a pure function of the request and of what was found.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/batch/allocation.hpp"
#include "cli/batch/hosts.hpp"
#include "cli/process/environment.hpp"
#include "cli/rank/placement.hpp"

namespace kolo::cli {

enum class LauncherKind : std::uint8_t { kUnknown, kOpenMpi4, kOpenMpi5, kHydra };

// Recognizes the launcher by the output of `mpirun --version`.
LauncherKind launcher_kind(const std::string& version_text);
// Returns the launcher that belongs to a library, from the text of MPI_Get_library_version().
LauncherKind launcher_kind_of_library(const std::string& version_text);
const char* name_of(LauncherKind kind);

// Throws UsageError if the launcher does not know this value of --bind-to.
void check_binding(LauncherKind kind, const std::string& bind_to);

struct LaunchRequest {
  LauncherKind kind = LauncherKind::kOpenMpi5;
  bool allow_root = false;
  int size = 1;
  int own_cores = 1;         // cores that this process may use
  int threads_per_rank = 0;  // 0: choose
  std::string mpirun;
  std::vector<Host> hosts;   // their slots are ranks that they can take; empty: this host takes all
  Allocation allocation;     // of the batch job, if this is one
  std::string remote_agent;  // starts a program on another host, as ssh does; empty: ssh
  std::string own_host;
  std::string bind_to;    // empty: choose
  Variables environment;  // of this process
  Variables extra;        // -x NAME=VALUE, and -x NAME with its present value
  std::vector<std::string> mpi_args;
  std::string rank_program;  // kolo-rank
  Rendezvous rendezvous;
  std::vector<std::string> program;
};

struct LaunchPlan {
  Variables set;                   // added to the launcher's environment
  std::vector<std::string> unset;  // removed from it
  std::vector<std::string> command;
  int size = 1;
  bool is_local = true;         // no rank runs on another host
  bool oversubscribed = false;  // more ranks than cores on this host
  bool can_suspend = false;     // the launcher passes kSuspendSignal and SIGCONT on to the ranks
};

// Returns the launcher and its own options, without the program to start.
LaunchPlan plan_launcher(const LaunchRequest& request);

LaunchPlan plan_launch(const LaunchRequest& request);

// Whether every rank runs on the host of kolo run.
bool is_local_job(const LaunchRequest& request);

// Whether a variable is passed on to other hosts without a request.
bool is_forwarded(const std::string& name);

// Returns an address of rank 0's host that the ranks can use: 127.0.0.1 if all are on this host.
std::string rendezvous_address(const LaunchRequest& request);

// Quotes a word so that a shell reads it back unchanged: "a b" becomes 'a b'.
std::string shell_quoted(const std::string& word);
std::string shell_line(const LaunchPlan& plan);

}  // namespace kolo::cli
