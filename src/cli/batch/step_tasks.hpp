// `kolo run` as srun starts it with one task on each node. The first task starts the ranks on all
// nodes. The others wait and end with its exit code, so that the step lasts as long as the job and
// has the job's exit code.
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
  std::string id;          // of job and step: "17.0"
  std::string first_host;  // host of task 0
};

// Returns nothing outside a step of Slurm, in a step with a terminal, and in a step of a single
// task. Throws UsageError if tasks share a node, because each would start all ranks.
std::optional<StepTask> find_step_task(const Lookup& environment);

// Whether another task of this step has the terminal. With `srun --pty`, only task 0 has the
// terminal and its shell. srun also runs the program as the other tasks, which must not start
// anything.
bool is_beside_a_terminal(const Lookup& environment);

// Task 0's side. The other tasks connect to it. They receive the exit code, or notice that this
// process has died.
class StepLeader {
 public:
  explicit StepLeader(const StepTask& task);  // throws std::system_error if no port is free
  StepLeader(const StepLeader&) = delete;
  StepLeader& operator=(const StepLeader&) = delete;

  int fd() const { return listener_.get(); }  // readable when greet() has something to do
  void greet();
  void finish(int code);  // sends it to all tasks; waits some seconds for those that are late

 private:
  const std::string id_;
  const int count_;
  Fd listener_;
  std::vector<Fd> others_;
};

// The other tasks' side. Returns task 0's exit code. If task 0 cannot be reached for `patience`
// seconds, or has died, reports that and returns 1. Ignores the signals that task 0 handles.
int follow_leader(const StepTask& task, double patience);

}  // namespace kolo::cli
