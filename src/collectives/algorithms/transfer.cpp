#include <algorithm>
#include <deque>
#include <optional>

#include "collectives/algorithms/algorithms.hpp"
#include "collectives/algorithms/tickets.hpp"

namespace kolo {
namespace {

constexpr std::size_t kPiecesInFlight = 8;  // maximum number

class Transfer final : public Work {
 public:
  Transfer(Transport& transport, Tag tag, void* data, std::size_t bytes, int peer, bool sending,
           std::size_t chunk_bytes)
      : transport_(transport),
        tag_(tag),
        data_(static_cast<std::byte*>(data)),
        bytes_(bytes),
        peer_(peer),
        sending_(sending),
        chunk_bytes_(chunk_bytes) {}

  Status start() override { return Status::ok(); }

  Progress step(Status& status) override {
    bool moved = false;
    status = retire(transport_, tickets_, moved);
    while (status.is_ok() && at_ < bytes_ && tickets_.size() < kPiecesInFlight) {
      const std::size_t piece = std::min(chunk_bytes_, bytes_ - at_);
      Ticket& ticket = tickets_.emplace_back();
      status = sending_ ? transport_.send(data_ + at_, piece, peer_, tag_, ticket)
                        : transport_.receive(data_ + at_, piece, peer_, tag_, ticket);
      at_ += piece;
      moved = true;
    }
    if (!status.is_ok()) return Progress::kFailed;
    if (at_ == bytes_ && tickets_.empty()) return Progress::kDone;
    return moved ? Progress::kAdvanced : Progress::kWaiting;
  }

  std::optional<int> waits_for() const override { return oldest_peer(transport_, tickets_); }

 private:
  Transport& transport_;  // outlives every work
  const Tag tag_;
  std::byte* const data_;  // kept alive by the owner of the work
  const std::size_t bytes_;
  const int peer_;
  const bool sending_;
  const std::size_t chunk_bytes_;
  std::size_t at_ = 0;  // bytes begun so far
  std::deque<Ticket> tickets_;
};

}  // namespace

std::unique_ptr<Work> make_transfer(Transport& transport, Tag tag, void* data, std::size_t bytes,
                                    int peer, bool sending, std::size_t chunk_bytes) {
  return std::make_unique<Transfer>(transport, tag, data, bytes, peer, sending, chunk_bytes);
}

}  // namespace kolo
