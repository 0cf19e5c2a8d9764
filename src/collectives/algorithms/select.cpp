#include "collectives/algorithms/algorithms.hpp"

namespace kolo {

std::unique_ptr<Work> make_allreduce(Transport& transport, Tag tag, void* data, std::size_t count,
                                     const Reduction& reduction, const Tuning& tuning) {
  const std::size_t bytes = count * size_of(reduction.dtype);
  // Adasum needs whole tensors in each step.
  const bool cut = reduction.op != ReduceOp::Adasum;
  if (cut && bytes >= tuning.ring_threshold_bytes && transport.size() > 1) {
    return make_ring_allreduce(transport, tag, data, count, reduction, tuning.chunk_bytes);
  }
  return make_recursive_doubling_allreduce(transport, tag, data, count, reduction,
                                           tuning.chunk_bytes);
}

}  // namespace kolo
