// The loader processes of a job: `kolo run --cpus`.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "cli/batch/allocation.hpp"
#include "cli/batch/hosts.hpp"
#include "cli/batch/step_tasks.hpp"
#include "cli/process/environment.hpp"
#include "cli/process/line_splitter.hpp"
#include "cli/process/system.hpp"
#include "cli/rank/loader_process.hpp"
#include "cli/run/launch_plan.hpp"
#include "core/clock.hpp"

namespace kolo::cli {

struct LoaderRequest {
  int count = 0;            // loader processes; 0: none
  std::uint64_t units = 0;  // samples that they prepare
  std::string spool;        // folder; empty: none
};

struct LoaderWait {
  std::optional<Clock::time_point> deadline;
  StepLeader* leader = nullptr;  // of the other tasks of a step of Slurm; null: no others
};

// The place of a loader process.
struct LoaderHost {
  std::string name;
  int component = 0;  // of a heterogeneous job of Slurm; component 0 has the ranks
};

// Returns the host of each loader process. In a heterogeneous job of Slurm, they fill the tasks of
// the further components, and then begin again. Otherwise they take turns on the hosts without a
// rank, or, if every host has one, on the ranks' hosts; ranks fill the slots of `hosts` in order.
// Without hosts, all loader processes run on "localhost".
std::vector<LoaderHost> loader_hosts(const std::vector<Host>& hosts,
                                     const std::vector<Component>& components, int ranks,
                                     int count);

// Returns the command that starts a process on that host, without the process's own words. In
// another component, which mpirun does not reach, the command is a step of one task. All steps of a
// node share the component's CPUs and memory there. Steps with CPUs of their own would wait for
// ever if there were more loader processes than tasks, or if a core had several threads.
LaunchPlan plan_loader(const LoaderHost& host, const LaunchRequest& launch);

// Returns the hosts that the ranks fill. A launcher that knows only these hosts survives the loss
// of another one.
std::vector<Host> hosts_of_ranks(const std::vector<Host>& hosts, int ranks);

// The launcher could not start a loader process on another host, or in another component of the
// job.
class LoaderNotStarted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Owns the loader processes. Used by one thread.
class LoaderTeam {
 public:
  // Starts the loader processes, on other hosts by the launcher, for the ranks that `launch`
  // describes. Throws std::system_error.
  LoaderTeam(const LoaderRequest& request, const LaunchRequest& launch);
  // Ends the loader processes.
  ~LoaderTeam();
  LoaderTeam(const LoaderTeam&) = delete;
  LoaderTeam& operator=(const LoaderTeam&) = delete;

  // Waits until all have prepared their samples, and reports every minute which have not. Returns
  // nothing, or kolo run's exit code if a signal or the deadline ended the job, which is reported.
  // Throws LoaderNotStarted, and std::runtime_error if a loader process cannot prepare.
  std::optional<int> wait_until_ready(const LoaderWait& wait);

  // Returns environment variables for the ranks.
  Variables variables() const;

 private:
  struct Loader {
    std::string host;
    LoaderParent parent = LoaderParent::kKoloRun;
    pid_t pid = -1;
    Fd input;  // the process ends when this is closed
    Fd output;
    LineSplitter lines{4096};
    std::string address;
    bool is_ready = false;
  };

  void start(const LoaderRequest& request, const LaunchRequest& launch, const LoaderHost& host);
  // Waits until all have ended, but not longer than some seconds.
  void wait_for_ends() const;
  void read(Loader& loader);
  std::string missing() const;
  std::optional<int> stopped_by(SignalQueue& signals,
                                std::optional<Clock::time_point> deadline) const;
  static void on_line(Loader& loader, const std::string& line);

  std::string token_;
  std::vector<Loader> loaders_;
};

}  // namespace kolo::cli
