#include "collectives/scaling.hpp"

namespace kolo {
namespace {

bool is_half(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBfloat16;
}

}  // namespace

Scaling scaled_before(const Reduction& reduction) {
  Scaling scaling{reduction.prescale, reduction};
  scaling.reduction.prescale = 1.0;
  return scaling;
}

Scaling scaled_before(const Scaling& scaling) {
  Scaling all = scaled_before(scaling.reduction);
  all.before *= scaling.before;
  return all;
}

Scaling scaled_for_partial_sums(const Reduction& reduction, int size) {
  Scaling scaling = scaled_before(reduction);
  if (size == 1 && is_half(reduction.dtype)) {
    scaling.before *= reduction.postscale;
    scaling.reduction.postscale = 1.0;
    return scaling;
  }
  if (reduction.dtype != DType::kFloat16 || reduction.op != ReduceOp::Average) return scaling;
  double inverse = 1.0;
  while (inverse < size) inverse *= 2.0;
  scaling.before /= inverse;
  scaling.reduction.postscale *= inverse;
  return scaling;
}

Scaling scaled_in_one_pass(const Reduction& reduction) {
  // A rank without values contributes the operator's identity. A factor changes every identity
  // except that of addition, zero.
  const bool adds = reduction.op == ReduceOp::Sum || reduction.op == ReduceOp::Average;
  return is_half(reduction.dtype) && adds ? Scaling{1.0, reduction} : scaled_before(reduction);
}

}  // namespace kolo
