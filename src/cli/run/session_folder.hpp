// The folder in which the launcher keeps its files while a job runs.
#pragma once

#include <string>

#include "cli/process/system.hpp"
#include "cli/run/launch_plan.hpp"

namespace kolo::cli {

// Returns why a launcher cannot keep its files in a folder (it is full, say), or "" if it can.
std::string fault_of_folder(const std::string& path);

// An empty folder for a job, which the destructor removes with its contents. Open MPI 5 names its
// own folder by its process ID, and does not start if a killed launcher has left a folder of that
// name. If kolo run is killed, the next kolo run removes the folder.
class SessionFolder {
 public:
  // Creates the folder in TMPDIR, or in /tmp if TMPDIR cannot be used. Throws std::runtime_error.
  SessionFolder();
  ~SessionFolder();
  SessionFolder(const SessionFolder&) = delete;
  SessionFolder& operator=(const SessionFolder&) = delete;

  // Has the launcher of a plan use the folder on this host.
  void tell(LaunchPlan& plan) const;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  Fd claim_;
};

}  // namespace kolo::cli
