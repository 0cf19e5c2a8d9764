// Finds the rank that failed first, and describes its failure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/rank/packet.hpp"

namespace kolo::cli {

// Returns "SIGKILL", or "signal 99" if the name is unknown.
std::string signal_name(int number);

struct RankEnd {
  int rank = 0;
  Ended ended;
};
bool is_success(const Ended& ended);  // exit code 0

// Returns the first failure among the ranks' ends, which are in the order of arrival. Skips ranks
// that had been asked to end. Also skips ranks that had lost a peer, if there are others: the peer
// ended before them, even if that took longer. Compares times only within a host, because clocks of
// hosts differ; between hosts the first arrival counts. The end of rank `also_failed` counts as a
// failure whatever its exit code. Returns null if no rank is to blame.
const RankEnd* first_failure(const std::vector<RankEnd>& ends, int also_failed = -1);

// Returns "was killed by signal 9 (SIGKILL)", "exited with code 3", "could not be started: No such
// file".
std::string how_it_ended(const Ended& ended);

// Returns "rank 1 on host node7 was killed by signal 9 (SIGKILL)".
std::string sentence(const RankEnd& failure);

// Returns the exit code that a shell shows for such an end: the program's, 128 + signal, 126 or
// 127.
int exit_code(const Ended& ended);

}  // namespace kolo::cli
