#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "collectives/reduce/combine.hpp"
#include "collectives/shm/exposure.hpp"
#include "collectives/shm/works.hpp"

namespace kolo::shm {
namespace {

// Bytes of a rank's region, and their destination here.
struct Want {
  int rank = 0;
  std::size_t begin = 0;
  std::size_t bytes = 0;
  std::byte* to = nullptr;
};

// Base of all collectives in which ranks read what others expose. It goes through all regions at
// the same time, piece by piece.
class Pull : public Work {
 public:
  Status start() override { return Status::ok(); }
  std::optional<int> waits_for() const override { return exposure_.waits_for(); }

  Progress step(Status& status) override {
    if (!posted_) {
      if (!exposure_.begin()) return Progress::kWaiting;
      status = exposure_.post(fill_room(exposure_.room()));
      if (!status.is_ok()) return Progress::kFailed;
      posted_ = true;
      return Progress::kAdvanced;
    }
    bool moved = exposure_.stage_one();
    if (exposure_.all_posted(status)) {
      if (!std::exchange(prepared_, true)) status = prepare();
      if (!status.is_ok()) return Progress::kFailed;
      moved = take_one() || moved;
      // Ends when nobody reads this rank's memory any more.
      if (taken_ == exposure_.pieces() &&
          (exposure_.is_memory_free() || exposure_.all_copied(taken_))) {
        exposure_.end();
        return Progress::kDone;
      }
    }
    if (!status.is_ok()) return Progress::kFailed;
    return moved ? Progress::kAdvanced : Progress::kWaiting;
  }

 protected:
  Pull(Board& board, Turn turn, std::vector<int> participants, const void* region,
       std::size_t bytes)
      : exposure_(board, turn, std::move(participants), region, bytes),
        rank_(board.rank()),
        size_(board.size()) {}

  // Writes what the others must know beside the region, at most Board::kRoom bytes. Returns the
  // number of bytes.
  virtual std::size_t fill_room(std::byte* /*room*/) { return 0; }
  // Called when all have posted.
  virtual Status prepare() { return Status::ok(); }
  // Called when the bytes from `begin` to `end` of all regions are exposed.
  virtual void take(std::size_t piece, std::size_t begin, std::size_t end) = 0;

  Exposure exposure_;
  const int rank_;
  const int size_;

 private:
  bool take_one() {
    if (taken_ == exposure_.pieces() || !exposure_.all_ready(taken_ + 1)) return false;
    take(taken_, Exposure::piece_begin(taken_), Exposure::piece_begin(taken_ + 1));
    exposure_.set_copied(++taken_);
    return true;
  }

  bool posted_ = false;
  bool prepared_ = false;
  std::size_t taken_ = 0;  // pieces
};

// Copies what this rank wants from the others' regions.
class Fetch : public Pull {
 public:
  Fetch(Board& board, Turn turn, std::vector<int> participants, const void* region,
        std::size_t bytes, std::vector<Want> wants, Exposure::Expected expected)
      : Pull(board, turn, std::move(participants), region, bytes), wants_(std::move(wants)) {
    exposure_.expect(std::move(expected));
  }

 protected:
  void take(std::size_t piece, std::size_t begin, std::size_t end) override {
    for (const Want& want : wants_) {
      const std::size_t first = std::max(begin, want.begin);
      const std::size_t last = std::min(end, want.begin + want.bytes);
      if (first >= last) continue;
      std::memcpy(want.to + (first - want.begin), exposure_.at(want.rank, piece, first),
                  last - first);
    }
  }

  std::vector<Want> wants_;
};

// The offsets of each rank's segments travel in its room, because only the sender knows them.
class Alltoall final : public Fetch {
 public:
  Alltoall(Board& board, Turn turn, const AlltoallSide& from, const AlltoallSide& to)
      : Fetch(board, turn, board.everyone(), from.data, from.boundaries.back(), {},
              [](int /*rank*/) { return Exposure::kAnyNumber; }),
        from_(from),
        to_(to) {}

 private:
  std::size_t fill_room(std::byte* room) override {
    const std::size_t bytes = from_.boundaries.size() * sizeof(std::size_t);
    std::memcpy(room, from_.boundaries.data(), bytes);
    return bytes;
  }

  // Each rank begins with its neighbour, so that not all read from one at a time.
  Status prepare() override {
    for (int i = 1; i < size_; ++i) {
      const int rank = (rank_ + i) % size_;
      const auto mine = static_cast<std::size_t>(rank_) * sizeof(std::size_t);
      std::array<std::size_t, 2> theirs{};  // begin and end of what is for this rank
      std::memcpy(theirs.data(), exposure_.room_of(rank) + mine, sizeof theirs);
      const auto at = static_cast<std::size_t>(rank);
      const std::size_t bytes = to_.boundaries[at + 1] - to_.boundaries[at];
      const auto [begin, end] = theirs;
      if (end < begin || end - begin != bytes || end > exposure_.bytes_of(rank)) {
        return Status::internal("alltoall: bytes " + std::to_string(begin) + " to " +
                                std::to_string(end) + " of a rank's " +
                                std::to_string(exposure_.bytes_of(rank)) + ", but " +
                                std::to_string(bytes) +
                                " are expected. This is a defect of kolo, or memory was "
                                "overwritten");
      }
      wants_.push_back(
          {rank, begin, bytes, static_cast<std::byte*>(to_.data) + to_.boundaries[at]});
    }
    return Status::ok();
  }

  const AlltoallSide from_;
  const AlltoallSide to_;
};

// Each rank reduces its own segment. Nobody else reads that part of its region.
class Reducescatter final : public Pull {
 public:
  Reducescatter(Board& board, Turn turn, const collective::Reducescatter& what)
      : Pull(board, turn, board.everyone(), what.data,
             what.boundaries.back() * size_of(what.reduction.dtype)),
        reduction_(what.reduction),
        bytes_(what.boundaries.back() * size_of(reduction_.dtype)),
        begin_(what.boundaries[static_cast<std::size_t>(rank_)] * size_of(reduction_.dtype)),
        end_(what.boundaries[static_cast<std::size_t>(rank_) + 1] * size_of(reduction_.dtype)),
        result_(what.result != nullptr ? static_cast<std::byte*>(what.result)
                                       : static_cast<std::byte*>(what.data) + begin_) {
    exposure_.leave_out([this](std::size_t piece) {
      const std::size_t begin = Exposure::piece_begin(piece);
      const std::size_t end = std::min(begin + Exposure::kPiece, bytes_);
      return Range{std::clamp(begin_, begin, end), std::clamp(end_, begin, end)};
    });
  }

 private:
  void take(std::size_t piece, std::size_t begin, std::size_t end) override {
    const std::size_t first = std::max(begin, begin_);
    const std::size_t last = std::min(end, end_);
    if (first >= last) return;
    std::vector<const void*> sources;
    sources.reserve(static_cast<std::size_t>(size_));
    for (int rank = 0; rank < size_; ++rank) sources.push_back(exposure_.at(rank, piece, first));
    const Destination destination[] = {{result_ + (first - begin_)}};
    combine(sources, destination, (last - first) / size_of(reduction_.dtype), reduction_);
  }

  const Reduction reduction_;
  const std::size_t bytes_;
  const std::size_t begin_;  // of the own segment, in bytes
  const std::size_t end_;
  std::byte* const result_;
};

}  // namespace

std::unique_ptr<Work> make_broadcast(Board& board, Turn turn, void* data, std::size_t bytes,
                                     int root) {
  const bool gives = board.rank() == root;
  std::vector<Want> wants;
  if (!gives) wants.push_back({root, 0, bytes, static_cast<std::byte*>(data)});
  return std::make_unique<Fetch>(board, turn, board.everyone(), data, gives ? bytes : 0,
                                 std::move(wants),
                                 [=](int rank) { return rank == root ? bytes : 0; });
}

// A rank's region is its own segment.
std::unique_ptr<Work> make_allgather(Board& board, Turn turn, void* data,
                                     const std::vector<std::size_t>& boundaries) {
  auto* const begin = static_cast<std::byte*>(data);
  std::vector<Want> wants;
  for (int i = 1; i < board.size(); ++i) {
    const auto rank = static_cast<std::size_t>((board.rank() + i) % board.size());
    wants.push_back({static_cast<int>(rank), 0, boundaries[rank + 1] - boundaries[rank],
                     begin + boundaries[rank]});
  }
  const auto mine = static_cast<std::size_t>(board.rank());
  return std::make_unique<Fetch>(board, turn, board.everyone(), begin + boundaries[mine],
                                 boundaries[mine + 1] - boundaries[mine], std::move(wants),
                                 [boundaries](int of) {
                                   const auto rank = static_cast<std::size_t>(of);
                                   return boundaries[rank + 1] - boundaries[rank];
                                 });
}

bool offsets_fit_room(int ranks) {
  return (static_cast<std::size_t>(ranks) + 1) * sizeof(std::size_t) <= Board::kRoom;
}

std::unique_ptr<Work> make_alltoall(Board& board, Turn turn, const AlltoallSide& from,
                                    const AlltoallSide& to) {
  return std::make_unique<Alltoall>(board, turn, from, to);
}

std::unique_ptr<Work> make_reducescatter(Board& board, Turn turn,
                                         const collective::Reducescatter& what) {
  return std::make_unique<Reducescatter>(board, turn, what);
}

std::unique_ptr<Work> make_transfer(Board& board, Turn turn, void* data, std::size_t bytes,
                                    int source, int destination) {
  const bool gives = board.rank() == source;
  std::vector<Want> wants;
  if (!gives) wants.push_back({source, 0, bytes, static_cast<std::byte*>(data)});
  return std::make_unique<Fetch>(board, turn, std::vector<int>{source, destination}, data,
                                 gives ? bytes : 0, std::move(wants),
                                 [=](int rank) { return rank == source ? bytes : 0; });
}

}  // namespace kolo::shm
