#include "collectives/shm/exposure.hpp"

#include <algorithm>
#include <utility>

#include "collectives/reduce/combine.hpp"

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
      participants_(std::move(participants)),
      region_(static_cast<std::byte*>(const_cast<void*>(region))),
      bytes_(bytes),
      stamp_(board.stamp(turn)),
      mine_(board.line(board.rank(), turn)) {
  for (const int rank : participants_) {
    if (rank != board_.rank()) others_.push_back(rank);
  }
}

Exposure::~Exposure() {
  if (staging_ != nullptr) board_.arena().free(staging_);
}

bool Exposure::begin() {
  if (!std::exchange(looked_, true)) {
    look(true);
    watched_ = false;  // what follows reads their lines
  }
  return board_.begin(turn_);
}

Status Exposure::post() {
  const std::optional<std::size_t> offset =
      bytes_ == 0 ? 0 : board_.arena().offset_of(region_, bytes_);
  mine_.bytes = bytes_;
  mine_.is_private = offset ? 0 : 1;
  mine_.distance = board_.distance();
  if (!offset) {
    const std::size_t wanted = std::min(pieces_of(bytes_), kAhead) * kPiece;
    staging_ = static_cast<std::byte*>(
        board_.arena().allocate(std::max(std::min(bytes_, wanted), Arena::kSmallest)));
    if (staging_ == nullptr) {
      return Status::internal(
          "no shared memory is left for " + std::to_string(wanted) +
          " bytes of staging: the arena is full (KOLO_ARENA_BYTES) or the machine is");
    }
    any_private_ = true;
  }
  mine_.offset = offset ? *offset : *board_.arena().offset_of(staging_, 1);
  for (auto* counter : {&mine_.ready, &mine_.reduced, &mine_.copied})
    counter->store(Board::count(stamp_, 0), std::memory_order_relaxed);
  pieces_ = std::max(pieces_, pieces_of(bytes_));
  stage_one();
  mine_.posted.store(stamp_, std::memory_order_release);
  return Status::ok();
}

bool Exposure::look(bool first) {
  for (; seen_ < others_.size(); ++seen_) {
    const bool posted = board_.has_posted(others_[seen_], turn_, first || watched_);
    watched_ = !posted;
    if (!posted) return false;
    const Line& line = board_.line(others_[seen_], turn_);
    board_.note_distance(line.distance);
    any_private_ = any_private_ || line.is_private != 0;
    pieces_ = std::max(pieces_, pieces_of(line.bytes));
  }
  return true;
}

// The slot of a piece is free when all others are done with the piece that had it before.
bool Exposure::stage_one() {
  if (staging_ == nullptr || staged_ == pieces_of(bytes_)) return false;
  if (staged_ >= kAhead && !(all_posted() && all_copied(staged_ + 1 - kAhead))) return false;
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
  const Line& line = board_.line(rank, turn_);
  std::byte* const exposed = board_.at(rank, line.offset);
  if (line.is_private == 0) return exposed + begin;
  return exposed + piece % kAhead * kPiece + (begin - piece * kPiece);
}

bool Exposure::all_ready(std::size_t pieces) const {
  if (staging_ != nullptr && staged_ < std::min(pieces, pieces_of(bytes_))) return false;
  return std::all_of(others_.begin(), others_.end(), [&](int rank) {
    const Line& line = board_.line(rank, turn_);
    return line.is_private == 0 ||
           Board::reached(line.ready, stamp_, std::min(pieces, pieces_of(line.bytes)));
  });
}

bool Exposure::all_reduced(std::size_t pieces) const {
  return std::all_of(others_.begin(), others_.end(), [&](int rank) {
    return Board::reached(board_.line(rank, turn_).reduced, stamp_, pieces);
  });
}

bool Exposure::all_copied(std::size_t pieces) const {
  return std::all_of(others_.begin(), others_.end(), [&](int rank) {
    return Board::reached(board_.line(rank, turn_).copied, stamp_, pieces);
  });
}

void Exposure::end() {
  board_.end(turn_, others_, pieces_);
}

}  // namespace kolo::shm
