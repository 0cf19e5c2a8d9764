#include <algorithm>
#include <deque>
#include <optional>
#include <vector>

#include "collectives/algorithms/algorithms.hpp"
#include "collectives/algorithms/tickets.hpp"

namespace kolo {
namespace {

// Maximum number of pieces in flight: enough to keep a link busy while the next piece is handled.
constexpr std::size_t kPiecesInFlight = 4;

class Broadcast final : public Work {
 public:
  Broadcast(Transport& transport, Tag tag, void* data, std::size_t bytes, int root,
            std::size_t chunk_bytes)
      : transport_(transport),
        tag_(tag),
        data_(static_cast<std::byte*>(data)),
        bytes_(bytes),
        chunk_bytes_(chunk_bytes),
        chunks_((bytes + chunk_bytes - 1) / chunk_bytes) {
    // Ranks are renumbered so that the root is 0. The parent of v is v without its lowest set bit;
    // its children are v plus each power of two below that bit.
    const int size = transport.size();
    const int mine = (transport.rank() - root + size) % size;
    int bit = 1;
    while (bit < size && (mine & bit) == 0) bit <<= 1;
    if (mine != 0) parent_ = (mine - bit + root) % size;
    for (bit >>= 1; bit > 0; bit >>= 1) {
      if (mine + bit < size) children_.push_back((mine + bit + root) % size);
    }
    if (mine == 0) arrived_ = chunks_;
  }

  Status start() override { return Status::ok(); }

  Progress step(Status& status) override {
    bool moved = false;
    status = receive_pieces(moved);
    if (status.is_ok()) status = send_pieces(moved);
    if (!status.is_ok()) return Progress::kFailed;
    if (arrived_ == chunks_ && forwarded_ == chunks_ && sends_.empty()) return Progress::kDone;
    return moved ? Progress::kAdvanced : Progress::kWaiting;
  }

  std::optional<int> waits_for() const override {
    return oldest_peer(transport_, receives_, sends_);
  }

 private:
  std::byte* piece(std::size_t chunk) const { return data_ + chunk * chunk_bytes_; }
  std::size_t piece_bytes(std::size_t chunk) const {
    return std::min(chunk_bytes_, bytes_ - chunk * chunk_bytes_);
  }

  Status receive_pieces(bool& moved) {
    while (arrived_ < chunks_) {
      while (posted_ < chunks_ && receives_.size() < kPiecesInFlight) {
        Ticket ticket;
        Status s = transport_.receive(piece(posted_), piece_bytes(posted_), parent_, tag_, ticket);
        if (!s.is_ok()) return s;
        receives_.push_back(ticket);
        ++posted_;
      }
      Status s;
      const Progress progress = transport_.poll(receives_.front(), s);
      if (progress == Progress::kWaiting) break;
      receives_.pop_front();
      if (progress == Progress::kFailed) return s;
      ++arrived_;
      moved = true;
    }
    return Status::ok();
  }

  Status send_pieces(bool& moved) {
    if (Status s = retire(transport_, sends_, moved); !s.is_ok()) return s;
    while (forwarded_ < arrived_ &&
           sends_.size() < kPiecesInFlight * std::max<std::size_t>(children_.size(), 1)) {
      for (const int child : children_) {
        Ticket ticket;
        Status s = transport_.send(piece(forwarded_), piece_bytes(forwarded_), child, tag_, ticket);
        if (!s.is_ok()) return s;
        sends_.push_back(ticket);
      }
      ++forwarded_;
      moved = true;
    }
    return Status::ok();
  }

  Transport& transport_;  // outlives every work
  const Tag tag_;
  std::byte* const data_;  // kept alive by the owner of the work
  const std::size_t bytes_;
  const std::size_t chunk_bytes_;
  const std::size_t chunks_;
  int parent_ = -1;
  std::vector<int> children_;
  std::size_t posted_ = 0;     // pieces with a receive
  std::size_t arrived_ = 0;    // pieces that are here
  std::size_t forwarded_ = 0;  // pieces whose sends were started
  std::deque<Ticket> receives_;
  std::deque<Ticket> sends_;
};

}  // namespace

std::unique_ptr<Work> make_broadcast(Transport& transport, Tag tag, void* data, std::size_t bytes,
                                     int root, std::size_t chunk_bytes) {
  return std::make_unique<Broadcast>(transport, tag, data, bytes, root, chunk_bytes);
}

}  // namespace kolo
