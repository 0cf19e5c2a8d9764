#include "collectives/shm/node.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "collectives/shm/slots.hpp"

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

Node::~Node() {
  for (const int lifeline : lifelines_) {
    if (lifeline >= 0) close(lifeline);
  }
  drop_own_lifeline();
}

void Node::drop_own_lifeline() {
  if (own_lifeline_ >= 0) close(std::exchange(own_lifeline_, -1));
}

std::optional<int> Node::lost_rank(const std::vector<int>& local_ranks) const {
  if (lifelines_.empty()) return std::nullopt;
  for (const int local : local_ranks) {
    const auto at = static_cast<std::size_t>(local);
    pollfd looked{lifelines_[at], 0, 0};  // poll() passes over a negative one
    if (poll(&looked, 1, 0) > 0 && (looked.revents & (POLLHUP | POLLERR)) != 0) return ranks_[at];
  }
  return std::nullopt;
}

void Node::keep(std::vector<Segment> mapped, std::vector<int> lifelines, int own_lifeline) {
  mapped_ = std::move(mapped);
  lifelines_ = std::move(lifelines);
  own_lifeline_ = own_lifeline;
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
    // All of them together own the arenas, since peers may still read when a rank is done.
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
