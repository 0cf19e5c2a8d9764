#include "collectives/algorithms/algorithms.hpp"

namespace kolo {

std::unique_ptr<Work> make_allreduce(Transport& transport, Tag tag, void* data, std::size_t count,
                                     const Reduction& reduction, const Tuning& tuning) {
  const std::size_t bytes = count * size_of(reduction.dtype);
  // Adasum needs whole tensors in each step.
  const AllreduceAlgorithm algorithm = reduction.op == ReduceOp::Adasum
                                           ? AllreduceAlgorithm::kRecursiveDoubling
                                           : tuning.allreduce.choose(transport.size(), bytes);
  const auto make = [&](auto maker) {
    return maker(transport, tag, data, count, reduction, piece_bytes(bytes, tuning.chunk_bytes));
  };
  switch (algorithm) {
    case AllreduceAlgorithm::kRecursiveDoubling:
      break;
    case AllreduceAlgorithm::kHalvingDoubling:
      return make(make_halving_doubling_allreduce);
    case AllreduceAlgorithm::kRing:
      return make(make_ring_allreduce);
    case AllreduceAlgorithm::kTree:
      return make(make_tree_allreduce);
  }
  return make(make_recursive_doubling_allreduce);
}

}  // namespace kolo
