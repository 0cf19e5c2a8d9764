// One rank's part in a collective over a board: it exposes a region of bytes, piece by piece, and
// sees what the others expose. Memory of the arena is exposed where it lies; other memory is copied
// through a staging buffer, a few pieces ahead of its readers.
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

// Of a region, in bytes.
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

  // `participants`: the ranks of the group that take part, this one among them. The region stays
  // the caller's. Null: the bytes lie in the room.
  Exposure(Board& board, Turn turn, std::vector<int> participants, const void* region,
           std::size_t bytes);
  ~Exposure();
  Exposure(const Exposure&) = delete;
  Exposure& operator=(const Exposure&) = delete;

  // What of a piece nobody but this rank reads, and is not copied to a staging buffer. Before
  // post().
  using Unread = std::function<Range(std::size_t piece)>;
  void leave_out(Unread unread) { unread_ = std::move(unread); }

  // How many bytes a rank must expose; unset: as many as this one. Before post().
  using Expected = std::function<std::size_t(int rank)>;
  static constexpr std::size_t kAnyNumber = std::numeric_limits<std::size_t>::max();
  void expect(Expected expected) { expected_ = std::move(expected); }

  // False: call again later. Afterwards room() may be filled, and then post() is called.
  bool begin() { return board_.begin(turn_); }
  std::byte* room() { return board_.room(board_.rank(), turn_); }
  Status post();

  // Whether all participants have posted. Once true it stays true, and what follows may be called.
  // An error: a rank exposes something else than is expected, and nothing of it may be touched.
  bool all_posted(Status& status);

  // Copies one more piece into the staging buffer, if there is one and its readers leave room.
  bool stage_one();

  const std::byte* room_of(int rank) const { return board_.room(rank, turn_); }
  bool is_private(int rank) const {
    return rank == board_.rank() ? staging_ != nullptr : peer(rank).is_private;
  }
  bool any_private() const { return any_private_; }
  // Of the largest region, and at least one, which may be empty.
  std::size_t pieces() const { return pieces_; }
  std::size_t bytes_of(int rank) const { return peer(rank).bytes; }
  static std::size_t piece_begin(std::size_t piece) { return piece * kPiece; }

  // Where byte `begin` of a rank's region can be read (or, where it is not private, written), while
  // `piece`, which it lies in, is exposed. This rank's own region is always its own memory.
  std::byte* at(int rank, std::size_t piece, std::size_t begin) const;
  // Whether to store what goes into a staging buffer around the cache. Its readers find it in
  // memory then, instead of fetching it from this core's cache, and this core need not take the
  // lines back from theirs. Which is quicker depends on sizes, on the caches, and on how far the
  // cores are.
  bool streams_staged() const { return way_ == Trial::kSecond; }
  // Of this rank's own region, which is private: where it lies in the staging buffer.
  std::byte* staged(std::size_t piece, std::size_t begin) const;

  // Whether so many pieces are exposed by all, and reduced and copied by all others.
  bool all_ready(std::size_t pieces);
  bool all_reduced(std::size_t pieces);
  bool all_copied(std::size_t pieces);
  // A rank, in the world, that was found not to have come so far at the last look.
  std::optional<int> waits_for() const;

  // On this rank.
  void set_reduced(std::size_t pieces) { raise(mine_.reduced, pieces); }
  void set_copied(std::size_t pieces) { raise(mine_.copied, pieces); }

  // This rank is done with what it reads (copied is set) and nobody writes to its region any more.
  void end();

 private:
  // Pieces.
  struct Counters {
    std::uint64_t ready = 0;
    std::uint64_t reduced = 0;
    std::uint64_t copied = 0;
  };
  // What this rank has seen of another one's line.
  struct Peer {
    std::uint64_t bytes = 0;
    std::uint64_t offset = 0;
    bool is_private = false;
    Counters counters;
  };

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
  std::byte* const region_;  // its owner's; written only by who reduces in place
  const std::size_t bytes_;
  const std::uint64_t stamp_;
  Line& mine_;
  std::vector<int> others_;  // ranks
  std::vector<Peer> peers_;  // by rank
  Unread unread_;
  Expected expected_;
  std::byte* staging_ = nullptr;  // in the arena
  std::size_t staged_ = 0;        // pieces
  Trial::Way way_ = Trial::kFirst;
  Clock::duration spent_{};     // on staging the first piece, before the post
  std::int64_t posted_at_ = 0;  // of who posted last, of those that were seen
  std::size_t seen_ = 0;        // of others_: have posted
  int waits_for_ = -1;          // a rank, or -1
  bool any_private_ = false;
  std::size_t pieces_ = 1;
};

}  // namespace kolo::shm
