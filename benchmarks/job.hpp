// Contenders that need a job of their own, since they cannot be in kolo-bench's processes: another
// allocator, another runtime. It is started by `kolo run` with as many ranks, and its processes are
// stopped (SIGSTOP) while others are timed. On one host alone: who answers `start` makes sure.
//
// Its rank 0 connects to the address that is its last argument (see Talk::kConnection) and answers
// lines with lines; it hands them on to its other ranks:
//
//     start          started VERSION PID PID ... ; PLACEMENT
//                                                  (VERSION without blanks; all ranks' processes)
//     work WORDS     ready                         (what is measured from now on)
//     run ROUND CALLS
//                    ran MICROSECONDS              (a sample of so many calls, checked: the time of
//                                                  all of them, of the slowest rank)
//     end            ended
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "benchmarks/child.hpp"
#include "benchmarks/group.hpp"
#include "benchmarks/harness.hpp"

namespace kolo::bench {

// The first word of kolo-bench's own command line for what starts a job: it makes the environment
// look as if no launcher had started it, may use all cores, and becomes the program that follows.
inline constexpr const char* kLaunch = "launch";
int launch(const std::vector<std::string>& words);

// All members are collective, and throw RunFailed on every rank.
class Job {
 public:
  struct Spec {
    std::string name;                   // of the contender
    std::vector<std::string> settings;  // of its environment, NAME=VALUE
    std::vector<std::string> program;
    std::vector<std::string> options = {};  // of kolo run
    double deadline_seconds = 120;          // for an answer, such as that to a sample's run
    bool bound = true;  // as `kolo run` binds: each rank to cores of its own, if there are enough
  };

  Job(Group& group, const Spec& spec);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  const std::string& version() const { return version_; }  // on rank 0

  // Measures this from now on: an earlier contender of this job is of no use any more.
  std::unique_ptr<Contender> contender(const std::string& work);

 private:
  friend class JobContender;

  // Rank 0 asks, while the others sleep. Gives the answer there. Throws ChildError.
  std::string ask(const std::string& line, const std::string& word);
  void signal_all(int signal) const;

  Group& group_;  // outlives this
  const std::string name_;
  std::string placement_;         // on rank 0
  std::unique_ptr<Child> child_;  // on rank 0
  std::vector<pid_t> processes_;  // of the job's ranks
  std::string version_;
};

}  // namespace kolo::bench
