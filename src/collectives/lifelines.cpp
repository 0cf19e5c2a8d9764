#include "collectives/lifelines.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace kolo {

Lifelines::Lifelines(std::vector<int> ranks, std::vector<int> peers, int own)
    : ranks_(std::move(ranks)), peers_(std::move(peers)), own_(own) {}

Lifelines::~Lifelines() {
  for (const int peer : peers_) {
    if (peer >= 0) close(peer);
  }
  drop_own();
}

void Lifelines::drop_own() {
  if (own_ >= 0) close(std::exchange(own_, -1));
}

std::optional<int> Lifelines::lost_rank(const std::vector<int>& ranks) const {
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    if (std::find(ranks.begin(), ranks.end(), ranks_[i]) == ranks.end()) continue;
    pollfd looked{peers_[i], 0, 0};  // poll() passes over a negative one
    if (poll(&looked, 1, 0) > 0 && (looked.revents & (POLLHUP | POLLERR)) != 0) return ranks_[i];
  }
  return std::nullopt;
}

}  // namespace kolo
