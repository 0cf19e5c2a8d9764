// The ranks of one node, and the memory that each of them lets the others reach.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "collectives/shm/arena.hpp"
#include "collectives/shm/exchange.hpp"
#include "collectives/shm/segment.hpp"

namespace kolo::shm {

class Node {
 public:
  // `ranks`: those of the node, in the world, in the order of their local ranks. `segments`: where
  // each one's is mapped here.
  Node(std::vector<int> ranks, int local_rank, std::shared_ptr<Arena> arena,
       std::vector<std::byte*> segments)
      : ranks_(std::move(ranks)),
        local_rank_(local_rank),
        arena_(std::move(arena)),
        segments_(std::move(segments)) {}

  int local_rank() const { return local_rank_; }
  int size() const { return static_cast<int>(ranks_.size()); }
  Arena& arena() const { return *arena_; }
  std::byte* segment(int local_rank) const {
    return segments_[static_cast<std::size_t>(local_rank)];
  }

  // The local ranks of ranks in the world; nothing if one of them is on another node.
  std::optional<std::vector<int>> find(const std::vector<int>& ranks) const;

  // A rank, in the world, whose process is gone, as far as this one can see.
  std::optional<int> lost_rank() const;

  // Takes over what the node stands on.
  void keep(std::vector<Segment> mapped, std::unique_ptr<Exchange> exchange);

 private:
  const std::vector<int> ranks_;
  const int local_rank_;
  const std::shared_ptr<Arena> arena_;
  const std::vector<std::byte*> segments_;
  std::vector<Segment> mapped_;  // the peers'
  std::unique_ptr<Exchange> exchange_;
};

// Nodes for threads of one process that play ranks 0 to size - 1.
std::vector<std::shared_ptr<Node>> make_local_nodes(int size, std::size_t capacity);

}  // namespace kolo::shm
