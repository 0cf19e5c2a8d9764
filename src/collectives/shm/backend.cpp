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

  std::unique_ptr<Work> make(Turn turn, Collective collective) override {
    if (goes_over_messages(kind_of(collective), op_of(collective)))
      return messages_->make(turn, std::move(collective));
    return std::visit([&](const auto& one) { return make_one(turn, one); }, collective);
  }
  Scaling scaling_of(OpKind /*kind*/, const Reduction& reduction) const override {
    return scaled_in_one_pass(reduction);
  }
  Medium medium(OpKind kind, ReduceOp op) const override {
    return goes_over_messages(kind, op) ? Medium::kMpi : Medium::kShm;
  }

  bool takes_result() const override { return true; }

  std::shared_ptr<std::byte[]> make_buffer(std::size_t bytes) override {
    auto* const block = static_cast<std::byte*>(node_->arena().allocate(bytes));
    if (block == nullptr) return Backend::make_buffer(bytes);
    std::memset(block, 0, bytes);
    return {block, [node = node_](std::byte* memory) { node->arena().free(memory); }};
  }

 private:
  bool goes_over_messages(OpKind kind, ReduceOp op) const {
    return op == ReduceOp::Adasum || kind == OpKind::kClock ||
           (kind == OpKind::kAlltoall && !offsets_fit_room(board_.size()));
  }

  std::unique_ptr<Work> make_one(Turn turn, const collective::Allreduce& one) {
    const bool is_small = fits_room(one.count * size_of(one.reduction.dtype));
    const auto make_allreduce = is_small ? make_small_allreduce : make_sliced_allreduce;
    return make_allreduce(board_, turn, one.data, one.count, one.reduction);
  }
  std::unique_ptr<Work> make_one(Turn turn, const collective::Broadcast& one) {
    return make_broadcast(board_, turn, one.data, one.bytes, one.root);
  }
  std::unique_ptr<Work> make_one(Turn turn, const collective::Allgather& one) {
    return make_allgather(board_, turn, one.data, one.boundaries);
  }
  std::unique_ptr<Work> make_one(Turn turn, const collective::Alltoall& one) {
    return make_alltoall(board_, turn, one.from, one.to);
  }
  std::unique_ptr<Work> make_one(Turn turn, const collective::Reducescatter& one) {
    return make_reducescatter(board_, turn, one);
  }
  std::unique_ptr<Work> make_one(Turn turn, const collective::Transfer& one) {
    return make_transfer(board_, turn, one.data, one.bytes, one.source, one.destination);
  }
  std::unique_ptr<Work> make_one(Turn turn, const collective::ReadClock& one) {
    return messages_->make(turn, one);
  }

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
