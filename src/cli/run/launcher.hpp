// Finds the launcher of the MPI on this machine.
#pragma once

#include <string>

#include "cli/process/environment.hpp"
#include "cli/run/launch_plan.hpp"

namespace kolo::cli {

struct Launcher {
  std::string path;
  LauncherKind kind = LauncherKind::kUnknown;
  std::string version;  // first line that the launcher prints about itself
};

// Returns the given launcher (empty: none is given), otherwise KOLO_MPIRUN from the environment,
// otherwise the one that kolo was built with, otherwise mpirun on PATH. Throws UsageError that
// names the places searched.
std::string find_launcher(const std::string& given, const Lookup& environment);

// Asks the launcher for its version. Without an answer within 20 seconds, its kind is unknown.
Launcher identify_launcher(const std::string& path);

// The output of a command on both streams, and its exit code (128 + signal). -1: the time has
// passed, and the command was killed with all that it had started. run_captured() throws
// std::system_error if the command cannot be started.
struct CommandResult {
  int code = 0;
  std::string output;
};
CommandResult run_captured(const std::vector<std::string>& command, const Variables& set,
                           double timeout_seconds, const std::vector<std::string>& unset = {});

}  // namespace kolo::cli
