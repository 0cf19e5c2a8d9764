#pragma once

#include <csignal>
#include <functional>
#include <optional>
#include <string>

namespace kolo {

// The number of processes of a job, which its launcher passes to each of them.
struct LaunchedSize {
  int size = 1;
  std::string variable;  // the environment variable that says so
};

// Reads the number from the environment, of which `get` returns a variable or nullptr. mpirun's
// value comes before srun's, because mpirun may have been started in a step of srun. Returns
// nothing if no launcher is known.
std::optional<LaunchedSize> launched_size(const std::function<const char*(const char*)>& get);

// The variable in which kolo-rank passes its own process number to its program, and the signal by
// which the program tells kolo-rank that it has lost a peer. Processes that do not ask for the
// signal ignore it, so a wrong number does no harm.
inline constexpr const char* kRankProcessVariable = "KOLO_RANK_PROCESS";
inline constexpr int kLostPeerSignal = SIGURG;

// Tells kolo-rank, if it has started this program, that another rank is gone. If this program fails
// now, that is a consequence, and kolo run blames the other rank.
void tell_of_lost_peer();

}  // namespace kolo
