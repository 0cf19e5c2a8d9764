// Types shared by the public API.
#pragma once

#include <cstdint>

namespace kolo {

// Operator with which allreduce combines the ranks' values. Floating point follows IEEE 754; Min
// and Max give NaN where any rank has NaN, as PyTorch does. Average divides by the number of ranks:
// integers are rounded towards zero, and the result is exact even where their sum would wrap
// around. Adasum (floating point only) adds the orthogonal parts of two ranks' tensors and averages
// the parallel parts: Maleki and others, Scaling Distributed Training with Adaptive Summation,
// 2020.
enum class ReduceOp : std::uint8_t {
  Average = 0,
  Sum = 1,
  Min = 2,
  Max = 3,
  Product = 4,
  Adasum = 5
};

}  // namespace kolo
