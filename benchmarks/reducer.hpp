// LibTorch's own reduction of gradients during backward(): c10d::Reducer, of which PyTorch's
// DistributedDataParallel is made, over MPI_Allreduce. reducer_none.cpp stands in where LibTorch
// was built without its distributed part.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

namespace kolo::bench {

// With DistributedDataParallel's sizes of buckets; the gradients are views of them and, once
// backward() has returned, sums over the ranks. A thread of its own, with a communicator of its
// own, calls MPI in the order in which buckets are ready. All members are collective, and used by
// one thread.
class OverlappingReducer {
 public:
  virtual ~OverlappingReducer() = default;
  virtual void before_forward() = 0;
  virtual void before_backward() = 0;
};

// Nothing if LibTorch has no such reducer; on all ranks or on none. Throws std::runtime_error.
std::unique_ptr<OverlappingReducer> make_reducer(const std::vector<at::Tensor>& parameters);

}  // namespace kolo::bench
