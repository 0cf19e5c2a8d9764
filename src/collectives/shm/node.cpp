#include "collectives/shm/node.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "collectives/shm/board.hpp"

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

std::optional<int> Node::lost_rank() const {
  if (exchange_ == nullptr) return std::nullopt;
  const std::optional<int> gone = exchange_->gone();
  if (!gone) return std::nullopt;
  return ranks_[static_cast<std::size_t>(*gone)];
}

void Node::keep(std::vector<Segment> mapped, std::unique_ptr<Exchange> exchange) {
  mapped_ = std::move(mapped);
  exchange_ = std::move(exchange);
}

std::vector<std::shared_ptr<Node>> make_local_nodes(int size, std::size_t capacity) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  const auto arenas = std::make_shared<std::vector<std::unique_ptr<Arena>>>(ranks.size());
  std::vector<std::byte*> segments;
  for (std::unique_ptr<Arena>& arena : *arenas) {
    throw_if_error(Arena::create(Board::kControlBytes, capacity, arena));
    segments.push_back(arena->segment().data());
  }
  std::vector<std::shared_ptr<Node>> nodes;
  for (const int rank : ranks) {
    // All nodes together own the arenas, since peers may still read when a rank is done.
    const std::shared_ptr<Arena> mine(arenas, (*arenas)[static_cast<std::size_t>(rank)].get());
    nodes.push_back(std::make_shared<Node>(ranks, rank, mine, segments));
  }
  return nodes;
}

}  // namespace kolo::shm
