#include "collectives/shm/board.hpp"

#include <numeric>
#include <utility>

#include "collectives/shm/layout.hpp"
#include "core/ranks.hpp"

namespace kolo::shm {
namespace {

constexpr std::size_t kLinesBytes = Board::kChannels * sizeof(Line);

}  // namespace

static_assert(sizeof(Line) == 64);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "processes share no locks");

Board::Board(std::shared_ptr<Node> node, std::vector<int> local_ranks, int slot,
             std::uint64_t generation)
    : node_(std::move(node)),
      members_(std::move(local_ranks)),
      rank_(index_of(members_, node_->local_rank())),
      begin_(board_of_slot(slot)),
      generation_(generation % 0xffff) {
  if (generation == 0) return;  // nobody has written there
  for (std::uint64_t channel = 0; channel < kChannels; ++channel)
    line(rank_, Turn{channel, 0}).posted.store(0, std::memory_order_relaxed);
}

std::vector<int> Board::everyone() const {
  std::vector<int> ranks(members_.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

Line& Board::line(int rank, Turn turn) const {
  const std::size_t channel = turn.sequence % kChannels;
  return *reinterpret_cast<Line*>(segment(rank).data() + begin_ + channel * sizeof(Line));
}

std::uint64_t Board::offset_of_room(Turn turn) const {
  return begin_ + kLinesBytes + turn.sequence % kChannels * kRoom;
}

// Never 0, which is the value of a line that nobody has used. The lower half, which counters hold
// as well, differs between collectives that follow each other on a channel.
std::uint64_t Board::stamp(Turn turn) const {
  return (generation_ + 1) << 48 | ((turn.sequence << 8 | (turn.part & 0xff)) & 0xffff'ffff'ffff);
}

std::optional<int> Board::reader(Turn turn) {
  Use& use = uses_[turn.sequence % kChannels];
  while (!use.readers.empty()) {
    const Line& theirs = line(use.readers.back(), turn);
    if (reached(theirs.copied, use.stamp) < use.pieces) return use.readers.back();
    use.readers.pop_back();
  }
  return std::nullopt;
}

void Board::end(Turn turn, const std::vector<int>& readers, std::uint64_t pieces) {
  Use& use = uses_[turn.sequence % kChannels];
  use.pieces = pieces;
  use.stamp = stamp(turn);
  use.readers = readers;
}

}  // namespace kolo::shm
