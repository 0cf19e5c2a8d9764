// The place where the ranks of a group on one node show each other how far a collective is. It
// consists of atomics in shared memory: each rank writes only those in its own segment, and the
// others read them.
//
// A collective uses a channel, which is its sequence number modulo kChannels. On it each rank has
// one line, and some room for small values. The rules:
//  - A rank posts: it fills offset, flags and room, sets the counters to their start, and stores
//    the stamp of the collective to `posted`. Once `posted` has the stamp, other ranks may read
//    the memory that the rank exposes.
//  - The counters ready, reduced and copied only grow while the channel is in use. A rank that
//    has seen a counter raised can read everything that was written before that.
//  - A rank posts again on the channel only when all others have copied all pieces. A counter that
//    has another collective's stamp therefore belongs to a rank that went on, and counts as
//    finished.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "collectives/backend.hpp"
#include "collectives/shm/layout.hpp"
#include "collectives/shm/node.hpp"
#include "collectives/shm/trial.hpp"

namespace kolo::shm {

class Board {
 public:
  static constexpr std::size_t kChannels = kBoardChannels;
  static constexpr std::size_t kRoom = kBoardRoom;

  // For a group of ranks that are all on the node. `slot` is one of kSlots; no two groups that live
  // at the same time have the same one. `generation`: number of groups that had the slot before.
  // The constructor clears what the last of them left in this rank's own lines, so 16 bits of the
  // generation are enough to tell groups apart.
  Board(std::shared_ptr<Node> node, std::vector<int> local_ranks, int slot,
        std::uint64_t generation);

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(members_.size()); }
  std::vector<int> everyone() const;  // 0 to size() - 1
  Arena& arena() const { return node_->arena(); }

  Line& line(int rank, Turn turn) const;
  std::byte* room(int rank, Turn turn) const { return at(rank, offset_of_room(turn)); }
  std::uint64_t offset_of_room(Turn turn) const;  // in any rank's segment
  // Returns the address of an offset in a rank's segment.
  std::byte* at(int rank, std::uint64_t offset) const { return segment(rank).data() + offset; }
  // Whether `bytes` bytes from the offset on lie in the rank's segment.
  bool contains(int rank, std::uint64_t offset, std::uint64_t bytes) const {
    const std::size_t size = segment(rank).size();
    return offset <= size && bytes <= size - offset;
  }
  int rank_in_world(int rank) const {
    return node_->ranks()[static_cast<std::size_t>(members_[static_cast<std::size_t>(rank)])];
  }

  std::uint64_t stamp(Turn turn) const;
  // Returns a counter's value for that many pieces of the collective with that stamp.
  static std::uint64_t count(std::uint64_t stamp, std::uint64_t pieces) {
    return stamp << 32 | pieces;
  }
  // Returns the number of pieces that a counter has reached: kAll, more than there are, if the rank
  // is at another collective.
  static std::uint64_t reached(const std::atomic<std::uint64_t>& counter, std::uint64_t stamp) {
    const std::uint64_t value = counter.load(std::memory_order_acquire);
    return value >> 32 == (stamp & 0xffff'ffff) ? value & 0xffff'ffff : kAll;
  }

  // Returns the trial that decides whether this rank stores into staging buffers through the cache
  // (kFirst) or around it (kSecond), for collectives that expose about `bytes` bytes. Those that
  // leave a part of the region out are not compared with others.
  Trial& staging_of(bool leaves_out, std::size_t bytes) {
    return staging_[leaves_out ? 1 : 0][static_cast<std::size_t>(std::bit_width(bytes))];
  }

  // --- the channel of a turn on this rank ---
  // Returns a rank that still reads what this rank has posted there for an earlier collective, or
  // nothing if the channel is free.
  std::optional<int> reader(Turn turn);
  // Notes the ranks that read what this one has posted. They are finished when they have copied
  // that many pieces.
  void end(Turn turn, const std::vector<int>& readers, std::uint64_t pieces);

 private:
  struct Use {
    std::uint64_t stamp = 0;
    std::uint64_t pieces = 0;
    std::vector<int> readers;
  };

  static constexpr std::uint64_t kAll = std::numeric_limits<std::uint64_t>::max();

  std::span<std::byte> segment(int rank) const {
    return node_->segment(members_[static_cast<std::size_t>(rank)]);
  }

  const std::shared_ptr<Node> node_;
  const std::vector<int> members_;  // local ranks, by rank of the group
  const int rank_;
  const std::size_t begin_;  // of the slot, in each segment
  const std::uint64_t generation_;
  std::array<Use, kChannels> uses_;
  std::array<std::array<Trial, 65>, 2> staging_;
};

}  // namespace kolo::shm
