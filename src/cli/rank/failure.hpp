// Which rank failed first, and how to say so.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/rank/packet.hpp"

namespace kolo::cli {

// "SIGKILL", or "signal 99" where the name is not known.
std::string signal_name(int number);

struct RankEnd {
  int rank = 0;
  Ended ended;
};
bool is_success(const Ended& ended);  // exit code 0

// The failure that came first, of ranks' ends in the order in which they arrived. Ranks that had
// been told to end are passed over, and so are those that had lost a peer if there are others: that
// peer's end came before theirs, even if it took longer. Times are compared within a host only,
// since clocks of hosts differ; between hosts the one that arrived first counts. The end of
// `also_failed` is a failure whatever its exit code. Null when nobody is to be blamed.
const RankEnd* first_failure(const std::vector<RankEnd>& ends, int also_failed = -1);

// "was killed by signal 9 (SIGKILL)", "exited with code 3", "could not be started: No such file".
std::string how_it_ended(const Ended& ended);

// "rank 1 on host node7 was killed by signal 9 (SIGKILL)"
std::string sentence(const RankEnd& failure);

// The exit code that a shell shows for such an end: the program's, 128 + signal, 126 or 127.
int exit_code(const Ended& ended);

}  // namespace kolo::cli
