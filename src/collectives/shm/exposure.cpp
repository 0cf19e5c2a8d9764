#include "collectives/shm/exposure.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "collectives/reduce/combine.hpp"
#include "core/clock.hpp"

namespace kolo::shm {
namespace {

std::size_t pieces_of(std::size_t bytes) {
  return (bytes + Exposure::kPiece - 1) / Exposure::kPiece;
}

}  // namespace

Exposure::Exposure(Board& board, Turn turn, std::vector<int> participants, const void* region,
                   std::size_t bytes)
    : board_(board),
      turn_(turn),
      region_(static_cast<std::byte*>(const_cast<void*>(region))),
      bytes_(bytes),
      stamp_(board.stamp(turn)),
      mine_(board.line(board.rank(), turn)),
      others_(std::move(participants)),
      peers_(static_cast<std::size_t>(board.size())) {
  std::erase(others_, board.rank());
}

Exposure::~Exposure() {
  if (staging_ != nullptr) board_.arena().free(staging_);
}

bool Exposure::begin() {
  const std::optional<int> reader = board_.reader(turn_);
  waits_for_ = reader.value_or(-1);
  return !reader;
}

// Returns the offset in this rank's segment at which the others find the region; nothing if it has
// to be staged.
std::optional<std::uint64_t> Exposure::place(std::size_t filled) {
  if (bytes_ == 0 || region_ == nullptr) return 0;
  if (const auto offset = board_.arena().offset_of(region_, bytes_)) return offset;
  if (filled + bytes_ > Board::kRoom) return std::nullopt;
  std::memcpy(room() + filled, region_, bytes_);
  in_room_ = true;
  return board_.offset_of_room(turn_) + filled;
}

Status Exposure::post(std::size_t filled) {
  const std::optional<std::uint64_t> offset = place(filled);
  mine_.bytes = bytes_;
  mine_.is_private = offset ? 0 : 1;
  any_private_ = !offset;
  if (!offset) {
    const std::size_t wanted = std::min(pieces_of(bytes_), kAhead) * kPiece;
    staging_ = static_cast<std::byte*>(
        board_.arena().allocate_staging(std::max(std::min(bytes_, wanted), Arena::kSmallest)));
    if (staging_ == nullptr) {
      return Status::internal("no shared memory is left for " + std::to_string(wanted) +
                              " bytes of staging: the machine, or the control group, is full");
    }
  }
  mine_.offset = offset ? *offset : *board_.arena().offset_of(staging_, 1);
  for (auto* counter : {&mine_.ready, &mine_.reduced, &mine_.copied})
    counter->store(Board::count(stamp_, 0), std::memory_order_relaxed);
  pieces_ = std::max(pieces_, pieces_of(bytes_));
  if (staging_ != nullptr) {
    way_ = trial().next();
    const Clock::time_point begin = Clock::now();
    stage_one();
    spent_ = Clock::now() - begin;
  }
  if (region_ != nullptr) {  // otherwise nobody stages anything
    posted_at_ = Clock::now().time_since_epoch().count();
    mine_.posted_at = posted_at_;
  }
  mine_.posted.store(stamp_, std::memory_order_release);
  return Status::ok();
}

bool Exposure::all_posted(Status& status) {
  for (; seen_ < others_.size(); ++seen_) {
    const int rank = others_[seen_];
    const Line& line = board_.line(rank, turn_);
    if (line.posted.load(std::memory_order_acquire) != stamp_) {
      waits_for_ = rank;
      return false;
    }
    Peer& peer = peers_[static_cast<std::size_t>(rank)];
    peer.bytes = line.bytes;
    peer.offset = line.offset;
    peer.is_private = line.is_private != 0;
    status = check(rank, peer);
    if (!status.is_ok()) return false;
    peer.counters = counters_of(rank);
    any_private_ = any_private_ || peer.is_private;
    pieces_ = std::max(pieces_, pieces_of(peer.bytes));
    posted_at_ = std::max(posted_at_, line.posted_at);
  }
  return true;
}

// Ranks that disagree about a size would read and write beyond each other's tensors.
Status Exposure::check(int rank, const Peer& peer) const {
  const std::size_t expected = expected_ ? expected_(rank) : bytes_;
  if (expected != kAnyNumber && peer.bytes != expected) {
    return Status::internal("rank " + std::to_string(board_.rank_in_world(rank)) + " brings " +
                            std::to_string(peer.bytes) + " bytes where rank " +
                            std::to_string(board_.rank_in_world(board_.rank())) + " expects " +
                            std::to_string(expected) +
                            ": these ranks do not mean the same collective. No tensor was touched. "
                            "This is a defect of kolo, or memory was overwritten");
  }
  const std::size_t mapped = peer.is_private ? std::min(peer.bytes, kAhead * kPiece) : peer.bytes;
  if (board_.contains(rank, peer.offset, mapped)) return Status::ok();
  return Status::internal("rank " + std::to_string(board_.rank_in_world(rank)) + " exposes " +
                          std::to_string(mapped) + " bytes at " + std::to_string(peer.offset) +
                          ", which is not in the memory that it shares. This is a defect of kolo, "
                          "or memory was overwritten");
}

// The slot of a piece is free when all others are done with the piece that had it before.
bool Exposure::stage_one() {
  if (staging_ == nullptr || staged_ == pieces_of(bytes_)) return false;
  if (staged_ >= kAhead && !(seen_ == others_.size() && all_copied(staged_ + 1 - kAhead))) {
    return false;
  }
  const std::size_t begin = staged_ * kPiece;
  const std::size_t end = std::min(begin + kPiece, bytes_);
  const Range unread = unread_ ? unread_(staged_) : Range{end, end};
  const bool streamed = streams_staged();
  copy(staged(staged_, begin), region_ + begin, unread.begin - begin, streamed);
  copy(staged(staged_, unread.end), region_ + unread.end, end - unread.end, streamed);
  ++staged_;
  raise(mine_.ready, staged_);
  return true;
}

std::byte* Exposure::staged(std::size_t piece, std::size_t begin) const {
  return staging_ + piece % kAhead * kPiece + (begin - piece * kPiece);
}

std::byte* Exposure::at(int rank, std::size_t piece, std::size_t begin) const {
  if (rank == board_.rank()) return region_ + begin;
  std::byte* const exposed = board_.at(rank, peer(rank).offset);
  if (!peer(rank).is_private) return exposed + begin;
  return exposed + piece % kAhead * kPiece + (begin - piece * kPiece);
}

Trial& Exposure::trial() {
  return board_.staging_of(unread_ != nullptr, bytes_);
}

std::optional<int> Exposure::waits_for() const {
  if (waits_for_ < 0) return std::nullopt;
  return board_.rank_in_world(waits_for_);
}

bool Exposure::all_ready(std::size_t pieces) {
  if (staging_ != nullptr && staged_ < std::min(pieces, pieces_of(bytes_))) return false;
  return all_reached(&Counters::ready, pieces);
}

bool Exposure::all_reduced(std::size_t pieces) {
  return all_reached(&Counters::reduced, pieces);
}

bool Exposure::all_copied(std::size_t pieces) {
  return all_reached(&Counters::copied, pieces);
}

Exposure::Counters Exposure::counters_of(int rank) const {
  const Line& line = board_.line(rank, turn_);
  return {Board::reached(line.ready, stamp_), Board::reached(line.reduced, stamp_),
          Board::reached(line.copied, stamp_)};
}

// Checks only ranks that had not come that far at their last check. A rank does not expose more
// pieces than it has.
bool Exposure::all_reached(std::uint64_t Counters::*counter, std::size_t pieces) {
  return std::all_of(others_.begin(), others_.end(), [&](int rank) {
    Peer& peer = peers_[static_cast<std::size_t>(rank)];
    const bool exposes = counter == &Counters::ready;
    if (exposes && !peer.is_private) return true;
    const std::uint64_t wanted = exposes ? std::min(pieces, pieces_of(peer.bytes)) : pieces;
    if (peer.counters.*counter >= wanted) return true;
    peer.counters = counters_of(rank);
    const bool has_come = peer.counters.*counter >= wanted;
    if (!has_come) waits_for_ = rank;
    return has_come;
  });
}

void Exposure::end() {
  if (staging_ != nullptr) {
    // Counts from the last post, because this rank may not have seen that at once.
    const Clock::duration since = Clock::now().time_since_epoch() - Clock::duration(posted_at_);
    trial().took(way_, static_cast<double>((spent_ + since).count()) / static_cast<double>(bytes_));
  }
  board_.end(turn_, others_, pieces_);
}

}  // namespace kolo::shm
