// Runs the launcher and stands by until the job has ended.
#pragma once

#include "cli/job_output.hpp"
#include "cli/launch_plan.hpp"

namespace kolo::cli {

struct JobOptions {
  OutputOptions output;
  double timeout_seconds = 0;  // 0: none
  double stop_seconds = 120;   // how long ranks may take to save and end after SIGTERM
};

inline constexpr int kTimeoutExitCode = 124;  // as of timeout(1)

// Starts the launcher, shows the ranks' output, passes signals on, and names the rank that failed
// first. Returns the job's exit code. When it returns, nothing of the job is left on this host
// unless the job succeeded. Call from a process with one thread.
int supervise(const LaunchPlan& plan, const JobOptions& options);

}  // namespace kolo::cli
