#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include "collectives/algorithms/algorithms.hpp"
#include "collectives/algorithms/tickets.hpp"

namespace kolo {
namespace {

// Maximum number of messages in flight in each direction.
constexpr std::size_t kPiecesInFlight = 8;

// Walks through the pieces of one side: those of the peer of step 1, then of step 2, ... The owner
// of the work keeps the data alive.
class Pieces {
 public:
  Pieces(const AlltoallSide& side, int rank, int direction, std::size_t chunk_bytes)
      : side_(side), rank_(rank), direction_(direction), chunk_bytes_(chunk_bytes) {
    enter(1);
  }

  bool at_end() const { return step_ >= size(); }
  int peer() const { return (rank_ + direction_ * step_ + size()) % size(); }
  std::byte* data() const { return static_cast<std::byte*>(side_.data) + at_; }
  std::size_t bytes() const { return std::min(piece_, end_ - at_); }
  void next() {
    at_ += bytes();
    if (at_ == end_) enter(step_ + 1);
  }

 private:
  int size() const { return static_cast<int>(side_.boundaries.size()) - 1; }
  // Enters the first step, from `step` on, that has data.
  void enter(int step) {
    for (step_ = step; step_ < size(); ++step_) {
      at_ = side_.boundaries[peer()];
      end_ = side_.boundaries[peer() + 1];
      piece_ = piece_bytes(end_ - at_, chunk_bytes_);
      if (at_ < end_) return;
    }
  }

  const AlltoallSide side_;
  const int rank_;
  const int direction_;  // 1: to the right, -1: from the left
  const std::size_t chunk_bytes_;
  int step_ = 1;
  std::size_t at_ = 0;
  std::size_t end_ = 0;
  std::size_t piece_ = 0;  // bytes
};

class Alltoall final : public Work {
 public:
  Alltoall(Transport& transport, Tag tag, const AlltoallSide& from, const AlltoallSide& to,
           std::size_t chunk_bytes)
      : transport_(transport),
        tag_(tag),
        outgoing_(from, transport.rank(), 1, chunk_bytes),
        incoming_(to, transport.rank(), -1, chunk_bytes) {}

  Status start() override { return Status::ok(); }

  Progress step(Status& status) override {
    bool moved = false;
    status = retire(transport_, receives_, moved);
    if (status.is_ok()) status = retire(transport_, sends_, moved);
    while (status.is_ok() && !incoming_.at_end() && receives_.size() < kPiecesInFlight) {
      status = transport_.receive(incoming_.data(), incoming_.bytes(), incoming_.peer(), tag_,
                                  receives_.emplace_back());
      incoming_.next();
      moved = true;
    }
    while (status.is_ok() && !outgoing_.at_end() && sends_.size() < kPiecesInFlight) {
      status = transport_.send(outgoing_.data(), outgoing_.bytes(), outgoing_.peer(), tag_,
                               sends_.emplace_back());
      outgoing_.next();
      moved = true;
    }
    if (!status.is_ok()) return Progress::kFailed;
    const bool done =
        incoming_.at_end() && outgoing_.at_end() && receives_.empty() && sends_.empty();
    if (done) return Progress::kDone;
    return moved ? Progress::kAdvanced : Progress::kWaiting;
  }

  std::optional<int> waits_for() const override {
    return oldest_peer(transport_, receives_, sends_);
  }

 private:
  Transport& transport_;  // outlives every work
  const Tag tag_;
  Pieces outgoing_;
  Pieces incoming_;
  std::deque<Ticket> receives_;
  std::deque<Ticket> sends_;
};

}  // namespace

std::unique_ptr<Work> make_alltoall(Transport& transport, Tag tag, const AlltoallSide& from,
                                    const AlltoallSide& to, std::size_t chunk_bytes) {
  return std::make_unique<Alltoall>(transport, tag, from, to, chunk_bytes);
}

}  // namespace kolo
