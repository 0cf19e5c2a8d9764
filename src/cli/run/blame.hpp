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
  std::vector<RankEnd> ends;       // in the order in which they arrived
  std::optional<LauncherReport> launcher;
};

// "ranks 0, 1 and ranks 2, 3 are on two hosts that both call themselves 'localhost'". MPI tells
// hosts apart by their names and would wait for ever. Empty: no two are known to have one name.
std::string hosts_of_one_name(const std::map<int, Started>& started);

struct Verdict {
  std::string sentence;          // "rank 1 on host node7 exited with code 3"
  std::optional<int> exit_code;  // nothing: the launcher's
};

// Those of `size` ranks that have not reported an end.
std::vector<int> ranks_unheard_of(const JobRecord& record, int size);

// Nothing when no single rank is known to have ended the job.
//
// The launcher alone knows of MPI_Abort (the rank itself is then told to end like all others) and
// of a rank whose kolo-rank was killed and has not reported. It also knows that a rank with exit
// code 0 left without MPI_Finalize; kolo does that where a peer was lost, so another rank may have
// failed before. Otherwise the rank that failed first ended the job.
std::optional<Verdict> verdict(const JobRecord& record);

}  // namespace kolo::cli
