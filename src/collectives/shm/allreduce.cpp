#include <algorithm>
#include <cstring>
#include <vector>

#include "collectives/reduce/combine.hpp"
#include "collectives/shm/exposure.hpp"
#include "collectives/shm/works.hpp"

namespace kolo::shm {
namespace {

// An allreduce of small tensors. Each rank copies its values into its room and reads those of all
// others. One look at each room is enough, because it is written again only after all ranks have
// read it.
class SmallAllreduce final : public Work {
 public:
  SmallAllreduce(Board& board, Turn turn, void* data, std::size_t count, const Reduction& reduction)
      : rank_(board.rank()),
        size_(board.size()),
        data_(data),
        count_(count),
        bytes_(count * size_of(reduction.dtype)),
        reduction_(reduction),
        exposure_(board, turn, board.everyone(), nullptr, bytes_) {}

  Status start() override { return Status::ok(); }
  std::optional<int> waits_for() const override { return exposure_.waits_for(); }

  Progress step(Status& status) override {
    if (!posted_) {
      if (!exposure_.begin()) return Progress::kWaiting;
      if (bytes_ > 0) std::memcpy(exposure_.room(), data_, bytes_);
      status = exposure_.post();
      if (!status.is_ok()) return Progress::kFailed;
      posted_ = true;
    }
    if (!exposure_.all_posted(status))
      return status.is_ok() ? Progress::kWaiting : Progress::kFailed;
    std::vector<const void*> sources;
    sources.reserve(static_cast<std::size_t>(size_));
    for (int rank = 0; rank < size_; ++rank) {
      sources.push_back(rank == rank_ ? static_cast<const void*>(data_) : exposure_.room_of(rank));
    }
    const Destination destination[] = {{data_}};
    combine(sources, destination, count_, reduction_);
    exposure_.set_copied(1);
    exposure_.end();
    return Progress::kDone;
  }

 private:
  const int rank_;
  const int size_;
  void* const data_;
  const std::size_t count_;
  const std::size_t bytes_;
  const Reduction reduction_;
  Exposure exposure_;
  bool posted_ = false;
};

class SlicedAllreduce final : public Work {
 public:
  SlicedAllreduce(Board& board, Turn turn, void* data, std::size_t count,
                  const Reduction& reduction)
      : rank_(board.rank()),
        size_(board.size()),
        bytes_(count * size_of(reduction.dtype)),
        reduction_(reduction),
        exposure_(board, turn, board.everyone(), data, bytes_) {}

  std::optional<int> waits_for() const override { return exposure_.waits_for(); }

  Status start() override {
    exposure_.leave_out([this](std::size_t piece) { return share(piece, rank_); });
    return Status::ok();
  }

  Progress step(Status& status) override {
    if (!posted_) {
      if (!exposure_.begin()) return Progress::kWaiting;
      status = exposure_.post();
      if (!status.is_ok()) return Progress::kFailed;
      posted_ = true;
      return Progress::kAdvanced;
    }
    bool moved = exposure_.stage_one();
    if (exposure_.all_posted(status)) {
      moved = reduce_one() || moved;
      moved = copy_one() || moved;
      if (copied_ == exposure_.pieces() && is_over()) {
        exposure_.end();
        return Progress::kDone;
      }
    }
    if (!status.is_ok()) return Progress::kFailed;
    return moved ? Progress::kAdvanced : Progress::kWaiting;
  }

 private:
  bool is_private() const { return exposure_.is_private(rank_); }

  // Returns a rank's share of a piece, cut at cache lines.
  Range share(std::size_t piece, int rank) const {
    const std::size_t begin = Exposure::piece_begin(piece);
    const std::size_t bytes = std::min(Exposure::kPiece, bytes_ - begin);
    const std::size_t lines = (bytes + 63) / 64;
    const auto cut = [&](int at) {
      const std::size_t line =
          lines * static_cast<std::size_t>(at) / static_cast<std::size_t>(size_);
      return begin + std::min(bytes, line * 64);
    };
    return {cut(rank), cut(rank + 1)};
  }

  // Reduces this rank's share of the next piece, from all ranks and to all ranks. A private rank
  // fetches the result from where this rank exposes it.
  bool reduce_one() {
    if (reduced_ == exposure_.pieces() || !exposure_.all_ready(reduced_ + 1)) return false;
    const Range range = share(reduced_, rank_);
    if (range.size() > 0) {
      std::vector<const void*> sources;
      std::vector<Destination> destinations;
      for (int rank = 0; rank < size_; ++rank) {
        std::byte* const at = exposure_.at(rank, reduced_, range.begin);
        sources.push_back(at);
        if (rank == rank_ || !exposure_.is_private(rank))
          destinations.push_back({at, rank != rank_ && bytes_ >= kStreamed});
      }
      if (is_private()) {
        destinations.push_back(
            {exposure_.staged(reduced_, range.begin), exposure_.streams_staged()});
      }
      combine(sources, destinations, range.size() / size_of(reduction_.dtype), reduction_);
    }
    exposure_.set_reduced(++reduced_);
    return true;
  }

  // A private rank fetches the others' shares. The other ranks have already received them.
  bool copy_one() {
    if (copied_ == exposure_.pieces() || copied_ == reduced_) return false;
    if (!exposure_.all_reduced(copied_ + 1)) return false;
    for (int rank = 0; is_private() && rank < size_; ++rank) {
      const Range range = share(copied_, rank);
      if (rank == rank_ || range.size() == 0) continue;
      std::memcpy(exposure_.at(rank_, copied_, range.begin),
                  exposure_.at(rank, copied_, range.begin), range.size());
    }
    exposure_.set_copied(++copied_);
    return true;
  }

  // Size of a tensor from which stores to other ranks go around the cache. The tensors of all ranks
  // do not fit the cache together then, and writing to lines that another core has fetched is slow.
  static constexpr std::size_t kStreamed = 8 << 20;

  // Whether nobody reads this rank's memory any more.
  bool is_over() { return !exposure_.any_private() || exposure_.all_copied(copied_); }

  const int rank_;
  const int size_;
  const std::size_t bytes_;
  const Reduction reduction_;
  Exposure exposure_;
  bool posted_ = false;
  std::size_t reduced_ = 0;
  std::size_t copied_ = 0;
};

}  // namespace

bool fits_room(std::size_t bytes) {
  return bytes <= Board::kRoom;
}

std::unique_ptr<Work> make_small_allreduce(Board& board, Turn turn, void* data, std::size_t count,
                                           const Reduction& reduction) {
  return std::make_unique<SmallAllreduce>(board, turn, data, count, reduction);
}

std::unique_ptr<Work> make_sliced_allreduce(Board& board, Turn turn, void* data, std::size_t count,
                                            const Reduction& reduction) {
  return std::make_unique<SlicedAllreduce>(board, turn, data, count, reduction);
}

}  // namespace kolo::shm
