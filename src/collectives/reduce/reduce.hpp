// Element-wise kernels on the CPU. dtype and operation are run-time values; this is the one place
// where they are dispatched.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/types.hpp"

namespace kolo {

// What may be asked of reduce(): everything but Sum and Average of bool, whose results would be no
// bool. Min and Product of bool are "and", Max is "or".
bool reduction_supported(DType dtype, ReduceOp op);

// accumulator[i] = op(accumulator[i], values[i]) for count elements. Average adds (the division is
// scale()'s). float16 and bfloat16 are computed in float32 and rounded to nearest even. Integers
// wrap around. Min and Max: NaN if either is NaN. The two ranges do not overlap; no alignment is
// needed beyond the element's.
void reduce(void* accumulator, const void* values, std::size_t count, DType dtype, ReduceOp op);

// values[i] *= factor: floating point in float32 (float64 for float64); integers in float64,
// rounded towards zero and held within the range of the dtype. bool is left as it is.
void scale(void* values, std::size_t count, DType dtype, double factor);

// values[i] /= divisor (positive): what Average needs. Integers are rounded towards zero, exactly,
// which multiplying by 1 / divisor would not be. float16 and bfloat16 in float32.
void divide(void* values, std::size_t count, DType dtype, std::int64_t divisor);

}  // namespace kolo
