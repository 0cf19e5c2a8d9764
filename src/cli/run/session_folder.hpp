// Where the launcher keeps its files while a job runs.
#pragma once

#include <string>

#include "cli/process/system.hpp"
#include "cli/run/launch_plan.hpp"

namespace kolo::cli {

// Why a launcher cannot keep its files in a folder: it is full, say. "" if it can.
std::string fault_of_folder(const std::string& path);

// Open MPI 5 names its folder by its process id, and does not start where a launcher that was
// killed has left one of that name. So each job gets an empty folder, which the destructor removes
// with all that is in it. A folder whose kolo run was killed is removed by the next one.
class SessionFolder {
 public:
  // In TMPDIR, or where that cannot be used in /tmp. Throws std::runtime_error.
  SessionFolder();
  ~SessionFolder();
  SessionFolder(const SessionFolder&) = delete;
  SessionFolder& operator=(const SessionFolder&) = delete;

  // Has the launcher of a plan use it on this host.
  void tell(LaunchPlan& plan) const;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  Fd claim_;
};

}  // namespace kolo::cli
