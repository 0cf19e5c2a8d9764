#include "cli/session_folder.hpp"

#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "cli/leftovers.hpp"

namespace kolo::cli {

SessionFolder::SessionFolder() {
  // A batch job may have the TMPDIR of the host where it was submitted.
  for (const std::string& parent :
       {system_environment()("TMPDIR").value_or(""), std::string("/tmp")}) {
    if (parent.empty()) continue;
    remove_dead_sessions(parent);
    path_ = parent + "/kolo-run-XXXXXX";
    if (::mkdtemp(path_.data()) == nullptr) continue;
    claim_ = claim_folder(path_);
    return;
  }
  throw std::system_error(errno, std::generic_category(), "cannot make the folder " + path_);
}

SessionFolder::~SessionFolder() {
  std::error_code ignored;  // what is left of it is in nobody's way
  std::filesystem::remove_all(path_, ignored);
}

void SessionFolder::tell(LaunchPlan& plan) const {
  plan.set.emplace_back("PRTE_MCA_prte_local_tmpdir_base", path_);
}

}  // namespace kolo::cli
