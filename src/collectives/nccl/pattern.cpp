#include "collectives/nccl/kernels.hpp"
#include "collectives/reduce/reduce.hpp"

namespace kolo::nccl {

Pattern identity_pattern(DType dtype, ReduceOp op) {
  Pattern pattern;
  fill_with_identity(pattern.bytes, sizeof pattern.bytes / size_of(dtype), dtype, op);
  return pattern;
}

}  // namespace kolo::nccl
