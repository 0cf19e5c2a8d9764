// Finds the rank that ended the job, from the ranks' reports and from the launcher's output.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/rank/failure.hpp"
#include "cli/run/launcher_text.hpp"

namespace kolo::cli {

struct JobRecord {
  std::map<int, Started> started;  // by rank
  std::vector<RankEnd> ends;       // in the order of arrival
  std::optional<LauncherReport> launcher;
};

// Returns "ranks 0, 1 and ranks 2, 3 are on two hosts that both call themselves 'localhost'", say.
// MPI tells hosts apart by their names and would wait for ever. Returns "" if no two hosts are
// known to have one name.
std::string hosts_of_one_name(const std::map<int, Started>& started);

struct Verdict {
  std::string sentence;          // "rank 1 on host node7 exited with code 3"
  std::optional<int> exit_code;  // nothing: the launcher's
};

// Returns those of `size` ranks that have not reported an end.
std::vector<int> ranks_unheard_of(const JobRecord& record, int size);

// Returns nothing if no single rank is known to have ended the job.
//
// Only the launcher knows of MPI_Abort (the calling rank is then asked to end like all others), and
// of a rank whose kolo-rank was killed before it could report. The launcher also knows that a rank
// with exit code 0 left without MPI_Finalize. kolo does that after losing a peer, so another rank
// may have failed before. Otherwise the rank that failed first ended the job.
std::optional<Verdict> verdict(const JobRecord& record);

}  // namespace kolo::cli
