#include "collectives/shm/backend.hpp"

#include <cstring>
#include <utility>

#include "collectives/shm/works.hpp"

namespace kolo::shm {
namespace {

class SharedMemoryBackend final : public Backend {
 public:
  SharedMemoryBackend(std::shared_ptr<Node> node, const std::vector<int>& local_ranks, int slot,
                      std::uint64_t generation, std::unique_ptr<Backend> messages)
      : node_(std::move(node)),
        board_(node_, local_ranks, slot, generation),
        messages_(std::move(messages)) {}

  int rank() const override { return board_.rank(); }
  int size() const override { return board_.size(); }

  std::unique_ptr<Work> allreduce(Turn turn, void* data, std::size_t count,
                                  const Reduction& reduction) override {
    if (reduction.op == ReduceOp::Adasum) return messages_->allreduce(turn, data, count, reduction);
    if (fits_room(count * size_of(reduction.dtype)))
      return make_small_allreduce(board_, turn, data, count, reduction);
    return make_sliced_allreduce(board_, turn, data, count, reduction);
  }
  Scaling scaling_of(OpKind /*kind*/, const Reduction& reduction) const override {
    return scaled_in_one_pass(reduction);
  }
  std::unique_ptr<Work> broadcast(Turn turn, void* data, std::size_t bytes, int root) override {
    return make_broadcast(board_, turn, data, bytes, root);
  }
  std::unique_ptr<Work> allgather(Turn turn, void* data,
                                  std::vector<std::size_t> boundaries) override {
    return make_allgather(board_, turn, data, boundaries);
  }
  std::unique_ptr<Work> alltoall(Turn turn, const AlltoallSide& from,
                                 const AlltoallSide& to) override {
    if (!offsets_fit_room(board_.size())) return messages_->alltoall(turn, from, to);
    return make_alltoall(board_, turn, from, to);
  }
  std::unique_ptr<Work> reducescatter(Turn turn, void* data, std::vector<std::size_t> boundaries,
                                      const Reduction& reduction) override {
    return make_reducescatter(board_, turn, data, boundaries, reduction);
  }
  std::unique_ptr<Work> transfer(Turn turn, void* data, std::size_t bytes, int source,
                                 int destination) override {
    return make_transfer(board_, turn, data, bytes, source, destination);
  }
  std::unique_ptr<Work> clock_reading(Turn turn, ClockReading& reading) override {
    return messages_->clock_reading(turn, reading);
  }
  timeline::Medium medium(OpKind kind, ReduceOp op) const override {
    const bool over_messages = (kind == OpKind::kAllreduce && op == ReduceOp::Adasum) ||
                               (kind == OpKind::kAlltoall && !offsets_fit_room(board_.size())) ||
                               kind == OpKind::kClock;
    return over_messages ? timeline::Medium::kMpi : timeline::Medium::kShm;
  }

  std::shared_ptr<std::byte[]> make_buffer(std::size_t bytes) override {
    auto* const block = static_cast<std::byte*>(node_->arena().allocate(bytes));
    if (block == nullptr) return Backend::make_buffer(bytes);
    std::memset(block, 0, bytes);
    return {block, [node = node_](std::byte* memory) { node->arena().free(memory); }};
  }

 private:
  const std::shared_ptr<Node> node_;
  Board board_;
  const std::unique_ptr<Backend> messages_;
};

}  // namespace

std::unique_ptr<Backend> make_backend(std::shared_ptr<Node> node,
                                      const std::vector<int>& local_ranks, int slot,
                                      std::uint64_t generation, std::unique_ptr<Backend> messages) {
  return std::make_unique<SharedMemoryBackend>(std::move(node), local_ranks, slot, generation,
                                               std::move(messages));
}

}  // namespace kolo::shm
