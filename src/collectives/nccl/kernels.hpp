// kolo's kernels for tensors on a device. A few launches handle many tensors.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/status.hpp"
#include "core/types.hpp"

namespace kolo::nccl {

// Elements to move. The two places are the same, or do not overlap.
struct Transfer {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;  // null: fill with the pattern
  std::size_t count = 0;            // elements
};

// The neutral value of a reduction, repeated.
struct Pattern {
  unsigned char bytes[16] = {};
};
Pattern identity_pattern(DType dtype, ReduceOp op);

// Loads the kernels onto the current device. Otherwise CUDA loads each kernel when it is first
// started, and may then wait for everything on the device, such as a collective that waits for
// commands after the kernel (CUDA C++ Programming Guide, lazy loading).
Status load_kernels();

Status enqueue_moves(const std::vector<Transfer>& transfers, DType dtype, const Pattern& fill,
                     cudaStream_t stream);
// Converts elements to another dtype, or the same, and multiplies them by the factor. kConverts in
// move.hpp lists the pairs of dtypes. Every transfer needs a source.
Status enqueue_conversion(const std::vector<Transfer>& transfers, DType from, DType to,
                          double factor, cudaStream_t stream);

}  // namespace kolo::nccl
