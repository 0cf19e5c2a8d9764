#pragma once

#include <csignal>
#include <functional>
#include <optional>
#include <string>

namespace kolo {

// What a launcher tells each process that it starts for one job.
struct LaunchedSize {
  int size = 1;
  std::string variable;  // that says so
};

// From the environment, of which `get` gives a variable or nullptr: mpirun's word before srun's,
// for it may have been started in a step of srun. Nothing where no launcher is known.
std::optional<LaunchedSize> launched_size(const std::function<const char*(const char*)>& get);

// The variable in which kolo-rank tells its program its own process number, and the signal by which
// the program tells kolo-rank that it has lost a peer. Processes that do not ask for the signal
// ignore it, so a wrong number does no harm.
inline constexpr const char* kRankProcessVariable = "KOLO_RANK_PROCESS";
inline constexpr int kLostPeerSignal = SIGURG;

// Tells kolo-rank, if it has started this program, that another rank is gone: when this program
// fails now, that is a consequence, and kolo run blames the other rank.
void tell_of_lost_peer();

}  // namespace kolo
