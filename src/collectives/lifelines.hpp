// Shows which processes of this node have ended. Each process keeps one end of a pipe on which
// nothing is ever written, and hands the other end to its peers. The kernel hangs the pipe up when
// the process ends.
#pragma once

#include <optional>
#include <vector>

namespace kolo {

class Lifelines {
 public:
  // `ranks`: the node's ranks, in the world. `peers`: for each of them the reading end of its pipe,
  // or -1. `own`: the end that this process keeps, or -1. The destructor closes all of them.
  Lifelines(std::vector<int> ranks, std::vector<int> peers, int own);
  ~Lifelines();
  Lifelines(const Lifelines&) = delete;
  Lifelines& operator=(const Lifelines&) = delete;

  // One of these ranks of the world whose process has ended. Ranks of other nodes count as alive.
  std::optional<int> lost_rank(const std::vector<int>& ranks) const;

  // For a child after fork(): it must not keep the parent's lifeline up.
  void drop_own();

 private:
  const std::vector<int> ranks_;
  const std::vector<int> peers_;
  int own_;
};

}  // namespace kolo
