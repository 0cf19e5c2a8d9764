#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "collectives/algorithms/algorithms.hpp"
#include "collectives/algorithms/tickets.hpp"
#include "collectives/reduce/combine.hpp"

namespace kolo {
namespace {

// Maximum number of receives posted ahead, and of sends in flight. One piece is copied while the
// one before it is reduced, and a late poll finds the next piece already here.
constexpr std::size_t kPiecesAhead = 4;

// Plan of the segments that travel round the ring. `boundaries` cut the data, in elements, into one
// segment per rank. In step t, rank r sends segment r - first - t and receives segment r - first -
// t - 1 (modulo n) from the left. In the first `reduce_steps` steps the received values are reduced
// into the rank's own; in the others they replace them.
struct RingPlan {
  std::vector<std::size_t> boundaries;
  std::size_t first = 0;
  std::size_t reduce_steps = 0;
  std::size_t steps = 0;
};

// Segments are cut into `pieces_` pieces. Piece c of step t has the index t * pieces_ + c; sender
// and receiver go through the indices in the same order, so one tag is enough. A piece may be sent
// as soon as the same piece of the step before has arrived: steps overlap.
class Ring final : public Work {
 public:
  Ring(Transport& transport, Tag tag, void* data, RingPlan plan, const Reduction& reduction,
       std::size_t chunk_bytes)
      : transport_(transport),
        tag_(tag),
        data_(static_cast<std::byte*>(data)),
        plan_(std::move(plan)),
        reduction_(reduction),
        element_bytes_(size_of(reduction.dtype)),
        ranks_(static_cast<std::size_t>(transport.size())),
        rank_(static_cast<std::size_t>(transport.rank())),
        largest_segment_(largest_segment()),
        piece_elements_(std::max<std::size_t>(1, chunk_bytes / element_bytes_)),
        pieces_((largest_segment_ + piece_elements_ - 1) / piece_elements_),
        total_(plan_.steps * pieces_) {}

  Status start() override {
    landing_bytes_ = std::min(piece_elements_, largest_segment_) * element_bytes_;
    // Not filled with zeros, which would cost as much as a copy.
    if (plan_.reduce_steps > 0) {
      scratch_ = std::make_unique_for_overwrite<std::byte[]>(std::min(kPiecesAhead, total_) *
                                                             landing_bytes_);
    }
    return Status::ok();
  }

  Progress step(Status& status) override {
    bool moved = false;
    status = post_receives();
    if (status.is_ok()) status = take_one_piece(moved);
    if (status.is_ok()) status = start_sends(moved);
    if (status.is_ok()) status = retire_sends(moved);
    if (!status.is_ok()) return Progress::kFailed;
    if (received_ == total_ && sent_ == total_ && sends_.empty()) return Progress::kDone;
    return moved ? Progress::kAdvanced : Progress::kWaiting;
  }

  std::optional<int> waits_for() const override {
    return oldest_peer(transport_, receives_, sends_);
  }

 private:
  struct Piece {
    std::byte* data;
    std::size_t elements;
  };

  std::size_t ring_step(std::size_t index) const { return index / pieces_; }
  bool is_reduced(std::size_t index) const { return ring_step(index) < plan_.reduce_steps; }

  std::size_t largest_segment() const {
    std::size_t largest = 0;
    for (std::size_t i = 0; i < ranks_; ++i)
      largest = std::max(largest, plan_.boundaries[i + 1] - plan_.boundaries[i]);
    return largest;
  }

  // Returns the piece that is sent (behind = 0) or received (behind = 1) with this index.
  Piece piece(std::size_t index, std::size_t behind) const {
    const std::size_t segment =
        (rank_ + 2 * ranks_ - plan_.first - ring_step(index) - behind) % ranks_;
    const std::size_t begin = plan_.boundaries[segment];
    const std::size_t end = plan_.boundaries[segment + 1];
    const std::size_t first = std::min(end, begin + index % pieces_ * piece_elements_);
    const std::size_t last = std::min(end, first + piece_elements_);
    return {data_ + first * element_bytes_, last - first};
  }

  std::byte* landing(std::size_t index, const Piece& to) {
    if (!is_reduced(index)) return to.data;
    return scratch_.get() + index % kPiecesAhead * landing_bytes_;
  }

  // Whether the piece may land at its place in the data. The piece that was sent from there a whole
  // round earlier must have left.
  bool is_free(std::size_t index) const {
    const std::size_t round = (ranks_ - 1) * pieces_;
    const std::size_t oldest = sending_.empty() ? sent_ : sending_.front();
    return index < round || index - round < oldest;
  }

  Status post_receives() {
    const int left = static_cast<int>((rank_ + ranks_ - 1) % ranks_);
    while (posted_ < total_ && posted_ - received_ < kPiecesAhead && is_free(posted_)) {
      const Piece to = piece(posted_, 1);
      Ticket ticket;  // stays empty for an empty piece, which neither side sends
      if (to.elements > 0) {
        Status s = transport_.receive(landing(posted_, to), to.elements * element_bytes_, left,
                                      tag_, ticket);
        if (!s.is_ok()) return s;
      }
      receives_.push_back(ticket);
      ++posted_;
    }
    return Status::ok();
  }

  Status take_one_piece(bool& moved) {
    if (receives_.empty()) return Status::ok();
    Status s;
    if (receives_.front().pending()) {
      const Progress progress = transport_.poll(receives_.front(), s);
      if (progress == Progress::kWaiting) return s;
      if (progress == Progress::kFailed) return s;
      const Piece to = piece(received_, 1);
      if (is_reduced(received_)) {
        const bool last = ring_step(received_) + 1 == plan_.reduce_steps;
        combine_into(to.data, landing(received_, to), to.elements,
                     last ? reduction_ : step_of(reduction_));
      }
    }
    receives_.pop_front();
    ++received_;
    moved = true;
    return s;
  }

  Status start_sends(bool& moved) {
    const int right = static_cast<int>((rank_ + 1) % ranks_);
    while (sent_ < total_ && sends_.size() < kPiecesAhead && sent_ < received_ + pieces_) {
      const Piece from = piece(sent_, 0);
      if (from.elements > 0) {
        Ticket ticket;
        Status s = transport_.send(from.data, from.elements * element_bytes_, right, tag_, ticket);
        if (!s.is_ok()) return s;
        sends_.push_back(ticket);
        sending_.push_back(sent_);
      }
      ++sent_;
      moved = true;
    }
    return Status::ok();
  }

  Status retire_sends(bool& moved) {
    Status status = retire(transport_, sends_, moved);
    while (sending_.size() > sends_.size()) sending_.pop_front();
    return status;
  }

  Transport& transport_;  // outlives every work
  const Tag tag_;
  std::byte* const data_;  // kept alive by the owner of the work
  const RingPlan plan_;
  const Reduction reduction_;
  const std::size_t element_bytes_;
  const std::size_t ranks_;
  const std::size_t rank_;
  const std::size_t largest_segment_;
  const std::size_t piece_elements_;
  const std::size_t pieces_;
  const std::size_t total_;               // indices on each side
  std::unique_ptr<std::byte[]> scratch_;  // kPiecesAhead landings
  std::size_t landing_bytes_ = 0;
  std::size_t posted_ = 0;    // receives posted
  std::size_t received_ = 0;  // receives done and reduced
  std::size_t sent_ = 0;      // sends started
  std::deque<Ticket> receives_;
  std::deque<Ticket> sends_;
  std::deque<std::size_t> sending_;  // indices of sends_
};

// The work of a group of one rank, which exchanges nothing.
class Alone final : public Work {
 public:
  Alone(void* data, std::size_t count, const Reduction& reduction)
      : data_(data), count_(count), reduction_(reduction) {}
  Status start() override {
    finish(data_, count_, reduction_);
    return Status::ok();
  }
  Progress step(Status& /*status*/) override { return Progress::kDone; }

 private:
  void* const data_;  // kept alive by the owner of the work
  const std::size_t count_;
  const Reduction reduction_;
};

std::vector<std::size_t> even_cut(std::size_t count, std::size_t ranks) {
  std::vector<std::size_t> boundaries;
  for (std::size_t i = 0; i <= ranks; ++i) boundaries.push_back(count * i / ranks);
  return boundaries;
}

}  // namespace

// After n - 1 steps segment r + 1 is complete on rank r, and complete segments travel on.
std::unique_ptr<Work> make_ring_allreduce(Transport& transport, Tag tag, void* data,
                                          std::size_t count, const Reduction& reduction,
                                          std::size_t chunk_bytes) {
  const auto ranks = static_cast<std::size_t>(transport.size());
  if (ranks == 1) return std::make_unique<Alone>(data, count, reduction);
  RingPlan plan{even_cut(count, ranks), 0, ranks - 1, 2 * (ranks - 1)};
  return std::make_unique<Ring>(transport, tag, data, std::move(plan), reduction, chunk_bytes);
}

// The ring begins one segment further back, so that segment r ends complete on rank r.
std::unique_ptr<Work> make_reducescatter(Transport& transport, Tag tag, void* data,
                                         std::vector<std::size_t> boundaries,
                                         const Reduction& reduction, std::size_t chunk_bytes) {
  const auto ranks = static_cast<std::size_t>(transport.size());
  if (ranks == 1) return std::make_unique<Alone>(data, boundaries.back(), reduction);
  RingPlan plan{std::move(boundaries), 1, ranks - 1, ranks - 1};
  return std::make_unique<Ring>(transport, tag, data, std::move(plan), reduction, chunk_bytes);
}

std::unique_ptr<Work> make_allgather(Transport& transport, Tag tag, void* data,
                                     std::vector<std::size_t> boundaries, std::size_t chunk_bytes) {
  const auto ranks = static_cast<std::size_t>(transport.size());
  Reduction bytes;
  bytes.dtype = DType::kUint8;
  RingPlan plan{std::move(boundaries), 0, 0, ranks - 1};
  return std::make_unique<Ring>(transport, tag, data, std::move(plan), bytes, chunk_bytes);
}

}  // namespace kolo
