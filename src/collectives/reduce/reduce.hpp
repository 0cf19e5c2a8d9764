// Operations on the CPU, element by element. combine.hpp does most of them faster.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/types.hpp"

namespace kolo {

// Whether the reduction is supported. All are but Sum and Average of bool, whose results are not
// bool, and Adasum of dtypes other than floating point. Min and Product of bool are "and", Max is
// "or".
bool reduction_supported(DType dtype, ReduceOp op);

// accumulator[i] = op(accumulator[i], values[i]) for count integers or bools, which wrap around.
// Average adds. The two ranges do not overlap. For reductions that combine() does not vectorise.
void reduce_integers(void* accumulator, const void* values, std::size_t count, DType dtype,
                     ReduceOp op);

// Puts the adaptive sum of two whole tensors into the first:
//   first * (1 - d / (2 |first|^2)) + second * (1 - d / (2 |second|^2)),  d their dot product.
// The products are summed in float64. Floating point dtypes only.
void adasum(void* first, const void* second, std::size_t count, DType dtype);

// Fills with the neutral value: 0 for Sum, Average and Adasum, 1 for Product, the largest value for
// Min and the smallest for Max (infinities, if the dtype has them).
void fill_with_identity(void* values, std::size_t count, DType dtype, ReduceOp op);

// values[i] *= factor: floating point in float32 (float64 for float64); integers in float64,
// rounded towards zero and held within the range of the dtype. bool is left as it is.
void scale(void* values, std::size_t count, DType dtype, double factor);

}  // namespace kolo
