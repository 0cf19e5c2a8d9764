#include "collectives/messages/backend.hpp"

#include <utility>

namespace kolo {
namespace {

// The parts of a decision share a tag, because messages between two ranks keep their order.
class MessageBackend final : public Backend {
 public:
  MessageBackend(Transport& transport, Tag first_tag, const Tuning& tuning)
      : transport_(transport), first_tag_(first_tag), tuning_(tuning) {}

  int rank() const override { return transport_.rank(); }
  int size() const override { return transport_.size(); }

  std::unique_ptr<Work> make(Turn turn, Collective collective) override {
    return std::visit([&](auto& one) { return make_one(tag(turn), one); }, collective);
  }
  Scaling scaling_of(OpKind /*kind*/, const Reduction& reduction) const override {
    return scaled_for_partial_sums(reduction, size());
  }
  Medium medium(OpKind /*kind*/, ReduceOp /*op*/) const override {
    return size() == 1 ? Medium::kNone : Medium::kMpi;
  }
  // True for operations that only move values. To reduce values, the host must read them.
  bool takes_device_memory(OpKind kind) const override {
    const bool moves = kind == OpKind::kBroadcast || kind == OpKind::kAllgather ||
                       kind == OpKind::kAlltoall || kind == OpKind::kSend;
    return moves && transport_.takes_device_memory();
  }

 private:
  std::unique_ptr<Work> make_one(Tag tag, const collective::Allreduce& one) {
    return make_allreduce(transport_, tag, one.data, one.count, one.reduction, tuning_);
  }
  std::unique_ptr<Work> make_one(Tag tag, const collective::Broadcast& one) {
    return make_broadcast(transport_, tag, one.data, one.bytes, one.root, piece(one.bytes));
  }
  std::unique_ptr<Work> make_one(Tag tag, collective::Allgather& one) {
    const std::size_t bytes = one.boundaries.back();
    return make_allgather(transport_, tag, one.data, std::move(one.boundaries), piece(bytes));
  }
  std::unique_ptr<Work> make_one(Tag tag, const collective::Alltoall& one) {
    return make_alltoall(transport_, tag, one.from, one.to, tuning_.chunk_bytes);
  }
  std::unique_ptr<Work> make_one(Tag tag, collective::Reducescatter& one) {
    const std::size_t bytes = one.boundaries.back() * size_of(one.reduction.dtype);
    return make_reducescatter(transport_, tag, one.data, std::move(one.boundaries), one.reduction,
                              piece(bytes));
  }
  std::unique_ptr<Work> make_one(Tag tag, const collective::Transfer& one) {
    const bool sends = one.source == transport_.rank();
    return make_transfer(transport_, tag, one.data, one.bytes, sends ? one.destination : one.source,
                         sends, piece(one.bytes));
  }
  std::unique_ptr<Work> make_one(Tag tag, const collective::ReadClock& one) {
    return make_clock_reading(transport_, tag, *one.reading);
  }

  std::size_t piece(std::size_t bytes) const { return piece_bytes(bytes, tuning_.chunk_bytes); }

  Tag tag(Turn turn) const {
    const Tag tags = transport_.max_tag() - first_tag_ + 1;
    return first_tag_ + static_cast<Tag>(turn.sequence % tags);
  }

  Transport& transport_;  // outlives this
  const Tag first_tag_;
  const Tuning tuning_;
};

}  // namespace

std::unique_ptr<Backend> make_message_backend(Transport& transport, Tag first_tag,
                                              const Tuning& tuning) {
  return std::make_unique<MessageBackend>(transport, first_tag, tuning);
}

}  // namespace kolo
