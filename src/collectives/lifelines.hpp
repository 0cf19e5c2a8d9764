// Shows which processes of this node have ended or are stopped. Each process keeps one end of a
// pipe on which nothing is ever written, and hands the other end to its peers. The kernel hangs the
// pipe up when the process ends.
#pragma once

#include <sys/types.h>

#include <optional>
#include <vector>

namespace kolo {

class Lifelines {
 public:
  struct Peer {
    int rank = 0;        // in the world
    int reading = -1;    // the reading end of its pipe; -1: none
    pid_t process = -1;  // its ID in this process's PID namespace; -1: it is in another one
  };

  // `own`: the end that this process keeps, or -1. The destructor closes it and the peers' ends.
  Lifelines(std::vector<Peer> peers, int own);
  ~Lifelines();
  Lifelines(const Lifelines&) = delete;
  Lifelines& operator=(const Lifelines&) = delete;

  // Returns one of these ranks of the world whose process has ended, if any. Ranks of other nodes
  // count as alive.
  std::optional<int> lost_rank(const std::vector<int>& ranks) const;

  // Returns those of these ranks whose processes a signal or a debugger has stopped. Ranks of other
  // nodes count as running.
  std::vector<int> stopped_ranks(const std::vector<int>& ranks) const;

  // Closes the end that this process keeps. For a child after fork(), which must not keep the
  // parent's lifeline up.
  void drop_own();

 private:
  const std::vector<Peer> peers_;
  int own_;
};

}  // namespace kolo
