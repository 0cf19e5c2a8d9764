// Shows which processes of this node have ended. The kernel tells it: each process keeps one end of
// a pipe on which nothing is ever written, and the others' ends hang up when it is gone.
#pragma once

#include <optional>
#include <vector>

namespace kolo {

class Lifelines {
 public:
  // `ranks`: those of the node, in the world. `peers`: for each of them the end of its pipe that
  // hangs up, or -1 for none. `own`: the end that shows that this process lives, or -1. Closes all
  // of them when it is destroyed.
  Lifelines(std::vector<int> ranks, std::vector<int> peers, int own);
  ~Lifelines();
  Lifelines(const Lifelines&) = delete;
  Lifelines& operator=(const Lifelines&) = delete;

  // One of these ranks of the world whose process has ended. Ranks of other nodes count as alive.
  std::optional<int> lost_rank(const std::vector<int>& ranks) const;

  // In a child after fork(), which must not look as if its parent lived.
  void drop_own();

 private:
  const std::vector<int> ranks_;
  const std::vector<int> peers_;
  int own_;
};

}  // namespace kolo
