#include <algorithm>
#include <deque>
#include <memory>
#include <optional>

#include "collectives/algorithms/algorithms.hpp"
#include "collectives/algorithms/folding.hpp"
#include "collectives/algorithms/tickets.hpp"
#include "collectives/reduce/combine.hpp"
#include "collectives/reduce/reduce.hpp"

namespace kolo {
namespace {

// For each bit, the ranks that have a place (see Folding) exchange all values with a partner and
// reduce them. Both partners compute the same sum of the same two operands, so all ranks end with
// the same bits.
class RecursiveDoubling final : public Work {
 public:
  RecursiveDoubling(Transport& transport, Tag tag, void* data, std::size_t count,
                    const Reduction& reduction, std::size_t chunk_bytes)
      : transport_(transport),
        tag_(tag),
        data_(static_cast<std::byte*>(data)),
        count_(count),
        reduction_(reduction),
        bytes_(count * size_of(reduction.dtype)),
        chunk_bytes_(chunk_bytes) {}

  Status start() override {
    if (bytes_ == 0) return Status::ok();
    plan_exchanges();
    if (exchanges_.empty()) finish(data_, count_, reduction_);  // one rank
    // Not filled with zeros, which would cost as much as a copy.
    if (!exchanges_.empty()) scratch_ = std::make_unique_for_overwrite<std::byte[]>(bytes_);
    return begin_exchange();
  }

  Progress step(Status& status) override {
    bool moved = false;
    while (!exchanges_.empty()) {
      status = retire(transport_, tickets_, moved);
      if (!status.is_ok()) return Progress::kFailed;
      if (!tickets_.empty()) return moved ? Progress::kAdvanced : Progress::kWaiting;
      end_exchange();
      exchanges_.pop_front();
      status = begin_exchange();
      if (!status.is_ok()) return Progress::kFailed;
      moved = true;
    }
    return Progress::kDone;
  }

  std::optional<int> waits_for() const override { return oldest_peer(transport_, tickets_); }

 private:
  enum class After : std::uint8_t { kNothing, kReduce, kReplace };

  struct Exchange {
    int peer = -1;
    bool send = false;
    bool receive = false;
    After after = After::kNothing;
    bool completes = false;  // the values are fully reduced after it
  };

  void plan_exchanges() {
    const int rank = transport_.rank();
    const Folding folding(transport_.size(), rank);
    if (folding.gives()) {
      exchanges_.push_back({rank - 1, true, false, After::kNothing, false});
      exchanges_.push_back({rank - 1, false, true, After::kReplace, false});
      return;
    }
    if (folding.takes()) exchanges_.push_back({rank + 1, false, true, After::kReduce, false});
    for (int bit = 1; bit < folding.places(); bit *= 2) {
      const int peer = folding.rank_at(folding.place() ^ bit);
      exchanges_.push_back({peer, true, true, After::kReduce, bit * 2 == folding.places()});
    }
    if (folding.takes()) exchanges_.push_back({rank + 1, true, false, After::kNothing, false});
  }

  Status begin_exchange() {
    if (exchanges_.empty()) return Status::ok();
    const Exchange& exchange = exchanges_.front();
    for (std::size_t at = 0; at < bytes_; at += chunk_bytes_) {
      const std::size_t length = std::min(chunk_bytes_, bytes_ - at);
      Ticket ticket;
      if (exchange.receive) {
        Status s = transport_.receive(scratch_.get() + at, length, exchange.peer, tag_, ticket);
        if (!s.is_ok()) return s;
        tickets_.push_back(ticket);
      }
      if (exchange.send) {
        Status s = transport_.send(data_ + at, length, exchange.peer, tag_, ticket);
        if (!s.is_ok()) return s;
        tickets_.push_back(ticket);
      }
    }
    return Status::ok();
  }

  void merge(void* into, const void* with) const {
    if (reduction_.op == ReduceOp::Adasum) {
      adasum(into, with, count_, reduction_.dtype);
    } else {
      combine_into(into, with, count_, step_of(reduction_));
    }
  }

  void end_exchange() {
    const Exchange& exchange = exchanges_.front();
    if (exchange.after == After::kReduce && exchange.peer > transport_.rank()) {
      merge(data_, scratch_.get());
    } else if (exchange.after == After::kReduce) {
      // The lower rank's operand comes first on both sides: Min of -0 and +0 depends on the order.
      merge(scratch_.get(), data_);
      std::copy(scratch_.get(), scratch_.get() + bytes_, data_);
    } else if (exchange.after == After::kReplace) {
      std::copy(scratch_.get(), scratch_.get() + bytes_, data_);
    }
    if (exchange.completes) finish(data_, count_, reduction_);
  }

  Transport& transport_;  // outlives every work
  const Tag tag_;
  std::byte* const data_;  // kept alive by the owner of the work
  const std::size_t count_;
  const Reduction reduction_;
  const std::size_t bytes_;
  const std::size_t chunk_bytes_;
  std::unique_ptr<std::byte[]> scratch_;
  std::deque<Exchange> exchanges_;  // the current one first
  std::deque<Ticket> tickets_;      // of the current exchange
};

}  // namespace

std::unique_ptr<Work> make_recursive_doubling_allreduce(Transport& transport, Tag tag, void* data,
                                                        std::size_t count,
                                                        const Reduction& reduction,
                                                        std::size_t chunk_bytes) {
  return std::make_unique<RecursiveDoubling>(transport, tag, data, count, reduction, chunk_bytes);
}

}  // namespace kolo
