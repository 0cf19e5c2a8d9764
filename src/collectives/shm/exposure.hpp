// One rank's part in a collective over a board: exposes a region of bytes to the other ranks, piece
// by piece, and reads theirs. Memory in the arena is exposed in place. Other memory is copied: into
// the room if it fits there, otherwise through a staging buffer, a few pieces ahead of its readers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "collectives/shm/board.hpp"
#include "collectives/shm/trial.hpp"
#include "core/clock.hpp"

namespace kolo::shm {

// A part of a region, in bytes.
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t size() const { return end - begin; }
};

class Exposure {
 public:
  // Pieces of a region, in bytes, and how many of them a staging buffer holds.
  static constexpr std::size_t kPiece = 512 << 10;
  static constexpr std::size_t kAhead = 4;

  // `participants`: the ranks of the group that take part, including this one. The caller keeps the
  // region. If it is null, the caller puts the bytes into the room itself.
  Exposure(Board& board, Turn turn, std::vector<int> participants, const void* region,
           std::size_t bytes);
  ~Exposure();
  Exposure(const Exposure&) = delete;
  Exposure& operator=(const Exposure&) = delete;

  // Returns the part of a piece that only this rank reads, which need not be copied to a staging
  // buffer. Call leave_out() before post().
  using Unread = std::function<Range(std::size_t piece)>;
  void leave_out(Unread unread) { unread_ = std::move(unread); }

  // Returns how many bytes a rank must expose; by default as many as this one. Call expect() before
  // post().
  using Expected = std::function<std::size_t(int rank)>;
  static constexpr std::size_t kAnyNumber = std::numeric_limits<std::size_t>::max();
  void expect(Expected expected) { expected_ = std::move(expected); }

  // False: call again later. After it has returned true, fill room() and call post(), with the
  // number of bytes that were filled if there is a region.
  bool begin();
  std::byte* room() { return board_.room(board_.rank(), turn_); }
  Status post(std::size_t filled = 0);

  // Whether all participants have posted. Once true it stays true, and the functions below may be
  // called. `status` is an error if a rank exposes another number of bytes than expected; its
  // memory must not be touched then.
  bool all_posted(Status& status);

  // Copies the next piece into the staging buffer, if there is a buffer and its readers leave room.
  bool stage_one();

  const std::byte* room_of(int rank) const { return board_.room(rank, turn_); }
  bool is_private(int rank) const {
    return rank == board_.rank() ? staging_ != nullptr : peer(rank).is_private;
  }
  bool any_private() const { return any_private_; }
  // Pieces of the largest region; at least one, which may be empty.
  std::size_t pieces() const { return pieces_; }
  std::size_t bytes_of(int rank) const { return peer(rank).bytes; }
  // Whether no other rank reads this rank's region: it is empty, or copied into the room.
  bool is_memory_free() const { return bytes_ == 0 || in_room_; }
  static std::size_t piece_begin(std::size_t piece) { return piece * kPiece; }

  // Returns where byte `begin` of a rank's region can be read (and written, if it is not private)
  // while `piece`, which contains it, is exposed. For this rank that is always its own memory.
  std::byte* at(int rank, std::size_t piece, std::size_t begin) const;
  // Whether to write a staging buffer around the cache. Readers then find the bytes in memory
  // instead of this core's cache, and this core need not take the lines back from theirs. The
  // faster way depends on sizes, caches and the distance of the cores.
  bool streams_staged() const { return way_ == Trial::kSecond; }
  // Returns where a byte of this rank's own, private region lies in the staging buffer.
  std::byte* staged(std::size_t piece, std::size_t begin) const;

  // Whether the first `pieces` pieces are exposed by all ranks, or reduced or copied by all others.
  bool all_ready(std::size_t pieces);
  bool all_reduced(std::size_t pieces);
  bool all_copied(std::size_t pieces);
  // Returns a rank, in the world, that was behind at the last check.
  std::optional<int> waits_for() const;

  // Raise this rank's own counters.
  void set_reduced(std::size_t pieces) { raise(mine_.reduced, pieces); }
  void set_copied(std::size_t pieces) { raise(mine_.copied, pieces); }

  // Ends this rank's part: it has read everything it needs (set_copied()), and no rank writes to
  // its region any more.
  void end();

 private:
  // Numbers of pieces.
  struct Counters {
    std::uint64_t ready = 0;
    std::uint64_t reduced = 0;
    std::uint64_t copied = 0;
  };
  // A copy of another rank's line, as last seen.
  struct Peer {
    std::uint64_t bytes = 0;
    std::uint64_t offset = 0;
    bool is_private = false;
    Counters counters;
  };

  std::optional<std::uint64_t> place(std::size_t filled);
  Trial& trial();
  Status check(int rank, const Peer& peer) const;
  const Peer& peer(int rank) const { return peers_[static_cast<std::size_t>(rank)]; }
  Counters counters_of(int rank) const;
  bool all_reached(std::uint64_t Counters::*counter, std::size_t pieces);
  void raise(std::atomic<std::uint64_t>& counter, std::size_t pieces) const {
    counter.store(Board::count(stamp_, pieces), std::memory_order_release);
  }

  Board& board_;  // outlives every work
  const Turn turn_;
  std::byte* const region_;  // the caller's; written only by collectives that reduce in place
  const std::size_t bytes_;
  const std::uint64_t stamp_;
  Line& mine_;
  std::vector<int> others_;  // ranks
  std::vector<Peer> peers_;  // by rank
  Unread unread_;
  Expected expected_;
  bool in_room_ = false;
  std::byte* staging_ = nullptr;  // in the arena
  std::size_t staged_ = 0;        // pieces
  Trial::Way way_ = Trial::kFirst;
  Clock::duration spent_{};     // on staging the first piece, before the post
  std::int64_t posted_at_ = 0;  // the latest time among the posts seen so far
  std::size_t seen_ = 0;        // number of others_ known to have posted
  int waits_for_ = -1;          // a rank, or -1
  bool any_private_ = false;
  std::size_t pieces_ = 1;
};

}  // namespace kolo::shm
