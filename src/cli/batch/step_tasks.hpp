// `kolo run` started by srun as one task on each node: the first task starts the ranks on all
// nodes, the others wait, and end as it does, so that the step lasts as long as the job and has its
// exit code.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/process/environment.hpp"
#include "cli/process/system.hpp"

namespace kolo::cli {

struct StepTask {
  int task = 0;
  int count = 1;           // at least 2
  std::string id;          // of job and step, "17.0"
  std::string first_host;  // where task 0 is
};

// Nothing outside a step of Slurm, in one with a terminal, and in one of a single task. Throws
// UsageError where tasks share a node: each would start all ranks.
std::optional<StepTask> find_step_task(const Lookup& environment);

// Whether this is a task beside the one that has a terminal. With `srun --pty` only task 0 has it
// and its shell; srun runs the program on the other tasks, too, where nothing is to be started.
bool is_beside_a_terminal(const Lookup& environment);

// Task 0's side. The other tasks connect, and get the exit code or notice that this process has
// died.
class StepLeader {
 public:
  explicit StepLeader(const StepTask& task);  // throws std::system_error where no port is free
  StepLeader(const StepLeader&) = delete;
  StepLeader& operator=(const StepLeader&) = delete;

  int fd() const { return listener_.get(); }  // readable when greet() has something to do
  void greet();
  void finish(int code);  // sends it to all; waits some seconds for those that have not come yet

 private:
  const std::string id_;
  const int count_;
  Fd listener_;
  std::vector<Fd> others_;
};

// The other tasks' side. Returns the code of task 0. If task 0 cannot be reached for `patience`
// seconds, or has died, reports that and returns 1. Signals are left to task 0, but SIGKILL.
int follow_leader(const StepTask& task, double patience);

}  // namespace kolo::cli
