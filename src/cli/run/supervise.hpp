// Runs the launcher and supervises the job until its end.
#pragma once

#include "cli/batch/step_tasks.hpp"
#include "cli/run/job_output.hpp"
#include "cli/run/launch_plan.hpp"

namespace kolo::cli {

struct JobOptions {
  OutputOptions output;
  double timeout_seconds = 0;    // 0: none
  double stop_seconds = 120;     // time that ranks have to save and end after SIGTERM
  StepLeader* leader = nullptr;  // of the other tasks of a step of Slurm; null: no others
};

struct JobEnd {
  int code = 0;
  bool was_stopped =
      false;  // by a signal to this process (SIGUSR1, too), the time limit, or refused hosts
  std::string lost_output;  // where some of it could not be written, and why; empty: none is lost
};

inline constexpr int kTimeoutExitCode = 124;  // as timeout(1)
inline constexpr int kLostExitCode = 1;       // the launcher reported success, but ranks were lost
// The launcher failed before any rank or loader process started. job.sh in slurm/ relies on it.
inline constexpr int kNotStartedExitCode = 209;

// Starts the launcher, shows the ranks' output, passes signals on, and names the rank that failed
// first. `code` is the job's exit code. On return, nothing of the job is left on this host unless
// the job succeeded. Call from a process with one thread.
JobEnd supervise(const LaunchPlan& plan, const JobOptions& options);

// Whether a signal that asks a job to stop has come since supervise() returned.
bool is_asked_to_stop();

}  // namespace kolo::cli
