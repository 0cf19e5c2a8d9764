// The ranks of one node, and the memory that each of them lets the others reach.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "collectives/shm/arena.hpp"
#include "collectives/shm/doorbell.hpp"
#include "collectives/shm/segment.hpp"

namespace kolo::shm {

class Node {
 public:
  // `ranks`: the node's ranks in the world, by local rank. `segments`: where each rank's segment is
  // mapped here.
  Node(std::vector<int> ranks, int local_rank, std::shared_ptr<Arena> arena,
       std::vector<std::span<std::byte>> segments)
      : ranks_(std::move(ranks)),
        local_rank_(local_rank),
        arena_(std::move(arena)),
        segments_(std::move(segments)) {}
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  const std::vector<int>& ranks() const { return ranks_; }
  int local_rank() const { return local_rank_; }
  int size() const { return static_cast<int>(ranks_.size()); }
  Arena& arena() const { return *arena_; }
  std::span<std::byte> segment(int local_rank) const {
    return segments_[static_cast<std::size_t>(local_rank)];
  }

  Doorbell::Lines& doorbell(int local_rank) const;
  // Returns this rank's doorbell, which may outlive the node.
  std::shared_ptr<Doorbell::Lines> own_doorbell() const { return {arena_, &doorbell(local_rank_)}; }

  // Returns the local ranks of ranks of the world, or nothing if one of them is on another node.
  std::optional<std::vector<int>> find(const std::vector<int>& ranks) const;

  // Takes over the peers' memory, in which their segments lie.
  void keep(std::vector<Segment> mapped) { mapped_ = std::move(mapped); }

 private:
  const std::vector<int> ranks_;
  const int local_rank_;
  const std::shared_ptr<Arena> arena_;
  const std::vector<std::span<std::byte>> segments_;
  std::vector<Segment> mapped_;  // the peers'
};

// Makes a node as each of its ranks sees it, for threads of one process that act as these ranks, or
// as ranks 0 to size - 1.
std::vector<std::shared_ptr<Node>> make_local_nodes(const std::vector<int>& ranks,
                                                    std::size_t capacity);
std::vector<std::shared_ptr<Node>> make_local_nodes(int size, std::size_t capacity);

}  // namespace kolo::shm
