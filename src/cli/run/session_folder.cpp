#include "cli/run/session_folder.hpp"

#include <fcntl.h>
#include <stdlib.h>

#include <cerrno>
#include <climits>
#include <filesystem>
#include <stdexcept>
#include <system_error>

#include "cli/process/system.hpp"
#include "cli/rank/leftovers.hpp"
#include "core/file.hpp"

namespace kolo::cli {

std::string fault_of_folder(const std::string& path) {
  constexpr std::size_t kNames = 256;  // room for the names of the launcher's files
  constexpr std::size_t kEnoughBytes = std::size_t{1} << 20;  // several times their size
  if (path.size() + kNames > PATH_MAX) {
    return "its path has " + std::to_string(path.size()) +
           " characters, which leaves too few for the names of files";
  }
  std::string trial = path + "/kolo-try-XXXXXX";
  if (::mkdtemp(trial.data()) == nullptr) return std::generic_category().message(errno);
  const Fd file(::open((trial + "/file").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const int error = file.is_open() ? write_all(file.get(), std::string(kEnoughBytes, ' ')) : errno;
  std::error_code ignored;
  std::filesystem::remove_all(trial, ignored);
  return error == 0 ? "" : std::generic_category().message(error);
}

SessionFolder::SessionFolder() {
  std::string faults;
  // A batch job may have inherited the TMPDIR of the host where it was submitted.
  for (const std::string& parent :
       {system_environment()("TMPDIR").value_or(""), std::string("/tmp")}) {
    if (parent.empty()) continue;
    std::string fault = fault_of_folder(parent);
    if (fault.empty()) {
      remove_dead_sessions(parent);
      path_ = parent + "/kolo-run-XXXXXX";
      if (::mkdtemp(path_.data()) != nullptr) {
        claim_ = claim_folder(path_);
        return;
      }
      fault = std::generic_category().message(errno);
    }
    if (!faults.empty()) faults += "; ";
    faults += parent;
    faults += ": " + fault;
  }
  throw std::runtime_error("no folder for the launcher's files: " + faults +
                           ". Set TMPDIR to one that can be written");
}

SessionFolder::~SessionFolder() {
  std::error_code ignored;  // files that are left over do no harm
  std::filesystem::remove_all(path_, ignored);
}

void SessionFolder::tell(LaunchPlan& plan) const {
  plan.set.emplace_back("PRTE_MCA_prte_local_tmpdir_base", path_);
}

}  // namespace kolo::cli
