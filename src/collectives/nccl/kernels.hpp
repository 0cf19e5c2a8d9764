// kolo's kernels for tensors on a device. A few launches do many tensors.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/status.hpp"
#include "core/types.hpp"

namespace kolo::nccl {

// Elements from one place to another that does not overlap with it, or that is the same.
struct Transfer {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;  // null: `fill`'s pattern
  std::size_t count = 0;            // elements
};

// The neutral value of a reduction, repeated.
struct Pattern {
  unsigned char bytes[16] = {};
};
Pattern identity_pattern(DType dtype, ReduceOp op);

// Onto the current device. CUDA else loads each when it is first started, and may wait for all that
// is on the device then, such as a collective that waits for what would come after the kernel (CUDA
// C++ Programming Guide, lazy loading).
Status load_kernels();

Status enqueue_moves(const std::vector<Transfer>& transfers, DType dtype, const Pattern& fill,
                     cudaStream_t stream);
// Into another dtype, or the same, times the factor: see converted() in move.hpp for which there
// are. None without a source.
Status enqueue_conversion(const std::vector<Transfer>& transfers, DType from, DType to,
                          double factor, cudaStream_t stream);

}  // namespace kolo::nccl
