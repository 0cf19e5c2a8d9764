// One rank's part in a collective over a board: it exposes a region of bytes, piece by piece, and
// sees what the others expose. Memory of the arena is exposed where it lies; other memory is copied
// through a staging buffer, a few pieces ahead of its readers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "collectives/shm/board.hpp"

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
  // the caller's.
  Exposure(Board& board, Turn turn, std::vector<int> participants, const void* region,
           std::size_t bytes);
  ~Exposure();
  Exposure(const Exposure&) = delete;
  Exposure& operator=(const Exposure&) = delete;

  // What of a piece nobody but this rank reads, and is not copied to a staging buffer. Before
  // post().
  using Unread = std::function<Range(std::size_t piece)>;
  void leave_out(Unread unread) { unread_ = std::move(unread); }

  // False: call again later. Afterwards room() may be filled, and then post() is called.
  bool begin();
  std::byte* room() { return board_.room(board_.rank(), turn_); }
  Status post();

  // Whether all participants have posted. Once true it stays true, and what follows may be called.
  bool all_posted() { return look(false); }

  // Copies one more piece into the staging buffer, if there is one and its readers leave room.
  bool stage_one();

  const std::byte* room_of(int rank) const { return board_.room(rank, turn_); }
  std::size_t bytes_of(int rank) const { return board_.line(rank, turn_).bytes; }
  bool is_private(int rank) const { return board_.line(rank, turn_).is_private != 0; }
  bool any_private() const { return any_private_; }
  // Of the largest region, and at least one, which may be empty.
  std::size_t pieces() const { return pieces_; }
  static std::size_t piece_begin(std::size_t piece) { return piece * kPiece; }

  // Where byte `begin` of a rank's region can be read (or, where it is not private, written), while
  // `piece`, which it lies in, is exposed. This rank's own region is always its own memory.
  std::byte* at(int rank, std::size_t piece, std::size_t begin) const;
  // Whether to store what goes into a staging buffer around the cache: its readers find it in
  // memory then, for fetching it from the cache of a core far away takes several times as long.
  bool streams_staged() const { return bytes_ >= kLittle && board_.is_far(); }
  // Of this rank's own region, which is private: where it lies in the staging buffer.
  std::byte* staged(std::size_t piece, std::size_t begin) const;

  // Whether so many pieces are exposed by all, and reduced and copied by all others.
  bool all_ready(std::size_t pieces) const;
  bool all_reduced(std::size_t pieces) const;
  bool all_copied(std::size_t pieces) const;
  // On this rank.
  void set_reduced(std::size_t pieces) { raise(mine_.reduced, pieces); }
  void set_copied(std::size_t pieces) { raise(mine_.copied, pieces); }

  // This rank is done with what it reads (copied is set) and nobody writes to its region any more.
  void end();

 private:
  static constexpr std::size_t kLittle = 16 << 10;

  bool look(bool first);
  void raise(std::atomic<std::uint64_t>& counter, std::size_t pieces) const {
    counter.store(Board::count(stamp_, pieces), std::memory_order_release);
  }
  Board& board_;  // outlives every work
  const Turn turn_;
  const std::vector<int> participants_;
  std::byte* const region_;  // its owner's; written only by who reduces in place
  const std::size_t bytes_;
  const std::uint64_t stamp_;
  Line& mine_;
  std::vector<int> others_;
  Unread unread_;
  std::byte* staging_ = nullptr;  // in the arena
  std::size_t staged_ = 0;        // pieces
  std::size_t seen_ = 0;          // of others_: have posted
  bool looked_ = false;           // at the others, before anything else of this channel
  bool watched_ = false;          // others_[seen_] was looked at last, and had not posted
  bool any_private_ = false;
  std::size_t pieces_ = 1;
};

}  // namespace kolo::shm
