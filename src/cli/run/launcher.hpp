// Finding the MPI's launcher on this machine.
#pragma once

#include <string>

#include "cli/process/environment.hpp"
#include "cli/run/launch_plan.hpp"

namespace kolo::cli {

struct Launcher {
  std::string path;
  LauncherKind kind = LauncherKind::kUnknown;
  std::string version;  // the first line it prints about itself
};

// The one given (empty: none), else KOLO_MPIRUN from the environment, else the one kolo was built
// with, else mpirun on PATH. Throws UsageError that says where was looked.
std::string find_launcher(const std::string& given, const Lookup& environment);

// Asks it for its version; one that does not answer within 20 seconds is unknown.
Launcher identify_launcher(const std::string& path);

// The output of a command on both streams and its exit code (128 + signal); -1: the time has passed
// and it was killed with all it had started. Throws std::system_error when it cannot be started.
struct CommandResult {
  int code = 0;
  std::string output;
};
CommandResult run_captured(const std::vector<std::string>& command, const Variables& set,
                           double timeout_seconds, const std::vector<std::string>& unset = {});

}  // namespace kolo::cli
