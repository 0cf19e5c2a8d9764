#include "collectives/messages/backend.hpp"

#include <utility>

namespace kolo {
namespace {

// The parts of a decision share a tag: messages between two ranks keep their order.
class MessageBackend final : public Backend {
 public:
  MessageBackend(Transport& transport, Tag first_tag, const Tuning& tuning)
      : transport_(transport), first_tag_(first_tag), tuning_(tuning) {}

  int rank() const override { return transport_.rank(); }
  int size() const override { return transport_.size(); }

  std::unique_ptr<Work> allreduce(Turn turn, void* data, std::size_t count,
                                  const Reduction& reduction) override {
    return make_allreduce(transport_, tag(turn), data, count, reduction, tuning_);
  }
  Scaling scaling_of(OpKind /*kind*/, const Reduction& reduction) const override {
    return scaled_for_partial_sums(reduction, size());
  }
  std::unique_ptr<Work> broadcast(Turn turn, void* data, std::size_t bytes, int root) override {
    return make_broadcast(transport_, tag(turn), data, bytes, root,
                          piece_bytes(bytes, tuning_.chunk_bytes));
  }
  std::unique_ptr<Work> allgather(Turn turn, void* data,
                                  std::vector<std::size_t> boundaries) override {
    const std::size_t piece = piece_bytes(boundaries.back(), tuning_.chunk_bytes);
    return make_allgather(transport_, tag(turn), data, std::move(boundaries), piece);
  }
  std::unique_ptr<Work> alltoall(Turn turn, const AlltoallSide& from,
                                 const AlltoallSide& to) override {
    return make_alltoall(transport_, tag(turn), from, to, tuning_.chunk_bytes);
  }
  std::unique_ptr<Work> reducescatter(Turn turn, void* data, std::vector<std::size_t> boundaries,
                                      const Reduction& reduction) override {
    const std::size_t bytes = boundaries.back() * size_of(reduction.dtype);
    return make_reducescatter(transport_, tag(turn), data, std::move(boundaries), reduction,
                              piece_bytes(bytes, tuning_.chunk_bytes));
  }
  std::unique_ptr<Work> transfer(Turn turn, void* data, std::size_t bytes, int source,
                                 int destination) override {
    const bool sending = source == transport_.rank();
    return make_transfer(transport_, tag(turn), data, bytes, sending ? destination : source,
                         sending, piece_bytes(bytes, tuning_.chunk_bytes));
  }
  std::unique_ptr<Work> clock_reading(Turn turn, ClockReading& reading) override {
    return make_clock_reading(transport_, tag(turn), reading);
  }
  timeline::Medium medium(OpKind /*kind*/, ReduceOp /*op*/) const override {
    return size() == 1 ? timeline::Medium::kNone : timeline::Medium::kMpi;
  }
  // Where values are only moved: to reduce them, the host reads them.
  bool takes_device_memory(OpKind kind) const override {
    const bool moves = kind == OpKind::kBroadcast || kind == OpKind::kAllgather ||
                       kind == OpKind::kAlltoall || kind == OpKind::kSend;
    return moves && transport_.takes_device_memory();
  }

 private:
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
