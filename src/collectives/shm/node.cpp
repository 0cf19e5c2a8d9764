#include "collectives/shm/node.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "collectives/shm/layout.hpp"

namespace kolo::shm {

std::optional<std::vector<int>> Node::find(const std::vector<int>& ranks) const {
  std::vector<int> local;
  for (const int rank : ranks) {
    const auto found = std::find(ranks_.begin(), ranks_.end(), rank);
    if (found == ranks_.end()) return std::nullopt;
    local.push_back(static_cast<int>(found - ranks_.begin()));
  }
  return local;
}

Doorbell::Lines& Node::doorbell(int local_rank) const {
  return *reinterpret_cast<Doorbell::Lines*>(segment(local_rank).data() + kDoorbell);
}

std::vector<std::shared_ptr<Node>> make_local_nodes(const std::vector<int>& ranks,
                                                    std::size_t capacity) {
  const auto arenas = std::make_shared<std::vector<std::unique_ptr<Arena>>>(ranks.size());
  std::vector<std::span<std::byte>> segments;
  for (std::unique_ptr<Arena>& arena : *arenas) {
    throw_if_error(Arena::create(kControlBytes, capacity, arena));
    segments.push_back(arena->segment().bytes());
  }
  std::vector<std::shared_ptr<Node>> nodes;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    // All nodes together own the arenas, because peers may still read when a rank is done.
    const std::shared_ptr<Arena> mine(arenas, (*arenas)[i].get());
    nodes.push_back(std::make_shared<Node>(ranks, static_cast<int>(i), mine, segments));
  }
  return nodes;
}

std::vector<std::shared_ptr<Node>> make_local_nodes(int size, std::size_t capacity) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return make_local_nodes(ranks, capacity);
}

}  // namespace kolo::shm
