#include "collectives/shm/control_channel.hpp"

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>

#include "collectives/shm/layout.hpp"
#include "core/ranks.hpp"

namespace kolo::shm {
namespace {

using Line = ControlRing::Line;

static_assert(sizeof(Line) == 64);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "processes share no locks");

// A stamp, low bits first: number of bytes used (6 bits), whether the message goes on in the next
// line (1), the line's number since the group began (41), the generation plus one (16). It is never
// 0, which is the value of a line that nobody has written, and differs from lap to lap and from
// group to group.
constexpr std::uint64_t kMore = 1 << 6;
constexpr std::uint64_t kNumberBits = 41;
constexpr std::uint64_t kNumbers = (std::uint64_t{1} << kNumberBits) - 1;

std::uint64_t which(std::uint64_t generation, std::uint64_t number) {
  return (generation + 1) << kNumberBits | (number & kNumbers);
}

std::uint64_t stamp_of(std::uint64_t which, std::size_t bytes, bool more) {
  return which << 7 | (more ? kMore : 0) | bytes;
}

class SharedMemoryControlChannel final : public ControlChannel {
 public:
  SharedMemoryControlChannel(std::shared_ptr<Node> node, std::vector<int> members, int slot,
                             std::uint64_t generation)
      : node_(std::move(node)),
        members_(std::move(members)),
        rank_(index_of(members_, node_->local_rank())),
        slot_(slot),
        generation_(generation % 0xffff),
        mine_(ring(rank_)) {
    for (int peer = 0; peer < size(); ++peer) {
      if (peer != rank_ && (peer == 0 || rank_ == 0))
        peers_.push_back({peer, &ring(peer), 0, {}, 0});
    }
    if (generation > 0) clear();
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }

  Status send(const Bytes& message) override {
    if (peers_.empty()) return Status::ok();
    if (outbox_.empty()) {
      const std::size_t written = write(message, 0);
      if (written < lines_of(message)) outbox_.push_back({message, written});
    } else {
      outbox_.push_back({message, 0});
    }
    return Status::ok();
  }

  Status advance(bool& moved) override {
    while (!outbox_.empty()) {
      Outgoing& first = outbox_.front();
      const std::size_t written = write(first.message, first.written);
      if (written == 0) break;
      moved = true;
      first.written += written;
      if (first.written < lines_of(first.message)) break;
      outbox_.pop_front();
    }
    return Status::ok();
  }

  bool sending() const override { return !outbox_.empty(); }

  // Reads from each peer in turn, so that none is left out.
  Status receive(std::optional<Message>& message) override {
    message.reset();
    for (std::size_t tried = 0; tried < peers_.size() && !message; ++tried) {
      Peer& peer = peers_[next_peer_];
      next_peer_ = (next_peer_ + 1) % peers_.size();
      if (read(peer)) message = Message{peer.rank, std::exchange(peer.unfinished, {})};
    }
    return Status::ok();
  }

 private:
  struct Peer {
    int rank = 0;
    ControlRing* ring = nullptr;  // in its segment, which the node keeps mapped
    std::uint64_t read = 0;       // lines of its ring that this rank has read
    Bytes unfinished;             // start of a message whose end has not arrived
    std::uint64_t has_read = 0;   // lines of this rank's ring that it has read, as far as known
  };
  struct Outgoing {
    Bytes message;
    std::size_t written = 0;  // lines
  };

  ControlRing& ring(int rank) const {
    const int local_rank = members_[static_cast<std::size_t>(rank)];
    std::byte* const segment = node_->segment(local_rank).data();
    return *reinterpret_cast<ControlRing*>(segment + control_ring_of_slot(slot_));
  }

  // Clears what the group before this one left in this rank's own ring, because generations repeat.
  void clear() {
    for (Line& line : mine_.lines) line.stamp.store(0, std::memory_order_relaxed);
    for (auto& read : mine_.read) read.store(0, std::memory_order_relaxed);
  }

  static std::size_t lines_of(const Bytes& message) {
    return std::max<std::size_t>(1, (message.size() + Line::kRoom - 1) / Line::kRoom);
  }

  // Returns how many lines may be written. A line that all peers have read may be written again.
  // The counter of a peer that has not begun to read still holds an earlier group's value.
  std::uint64_t free_lines() {
    std::uint64_t slowest = written_;
    for (Peer& peer : peers_) {
      if (written_ - peer.has_read >= ControlRing::kLines) {
        const std::uint64_t value =
            peer.ring->read[static_cast<std::size_t>(rank_)].load(std::memory_order_acquire);
        // It holds the low bits of a number that is at most `written_`.
        if (value >> kNumberBits == generation_ + 1)
          peer.has_read = written_ - ((written_ - value) & kNumbers);
      }
      slowest = std::min(slowest, peer.has_read);
    }
    return ControlRing::kLines - (written_ - slowest);
  }

  // Writes as much of the message, from line `from` on, as there is room for. Returns the number of
  // lines.
  std::size_t write(const Bytes& message, std::size_t from) {
    const std::size_t lines = lines_of(message);
    std::size_t line = from;
    for (; line < lines && free_lines() > 0; ++line) {
      const std::size_t begin = line * Line::kRoom;
      const std::size_t bytes = std::min(Line::kRoom, message.size() - begin);
      Line& to = mine_.lines[written_ % ControlRing::kLines];
      if (bytes > 0) std::memcpy(to.bytes.data(), message.data() + begin, bytes);
      to.stamp.store(stamp_of(which(generation_, written_), bytes, line + 1 < lines),
                     std::memory_order_release);
      ++written_;
      if (rank_ == 0 && written_ % (ControlRing::kLines / 4) == 0) call_peers();
    }
    if (rank_ != 0 && line > from) call_peers();
    return line - from;
  }

  // Wakes the peers that sleep. A rank that takes part in an operation looks by itself. But the
  // others need rank 0 whatever its own program does, and a rank that sleeps for long must read now
  // and then, so that rank 0's ring does not fill up.
  void call_peers() {
    for (const Peer& peer : peers_)
      Doorbell::call(node_->doorbell(members_[static_cast<std::size_t>(peer.rank)]));
  }

  // Reads what the peer has written. Returns whether a message is now complete.
  bool read(Peer& peer) {
    const std::uint64_t before = peer.read;
    bool whole = false;
    while (!whole) {
      const Line& line = peer.ring->lines[peer.read % ControlRing::kLines];
      const std::uint64_t stamp = line.stamp.load(std::memory_order_acquire);
      if (stamp >> 7 != which(generation_, peer.read)) break;
      const auto bytes = static_cast<std::ptrdiff_t>(stamp & (kMore - 1));
      peer.unfinished.insert(peer.unfinished.end(), line.bytes.begin(), line.bytes.begin() + bytes);
      whole = (stamp & kMore) == 0;
      ++peer.read;
    }
    if (peer.read != before) {
      mine_.read[static_cast<std::size_t>(peer.rank)].store(which(generation_, peer.read),
                                                            std::memory_order_release);
    }
    return whole;
  }

  const std::shared_ptr<Node> node_;
  const std::vector<int> members_;  // local ranks, by rank of the group
  const int rank_;
  const int slot_;
  const std::uint64_t generation_;
  ControlRing& mine_;        // in this rank's segment
  std::vector<Peer> peers_;  // on rank 0 all others, on others rank 0
  std::size_t next_peer_ = 0;
  std::uint64_t written_ = 0;  // lines of this rank's ring
  std::deque<Outgoing> outbox_;
};

}  // namespace

std::unique_ptr<ControlChannel> make_control_channel(std::shared_ptr<Node> node,
                                                     const std::vector<int>& local_ranks, int slot,
                                                     std::uint64_t generation) {
  return std::make_unique<SharedMemoryControlChannel>(std::move(node), local_ranks, slot,
                                                      generation);
}

}  // namespace kolo::shm
