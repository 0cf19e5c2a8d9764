// Returns rows of arrays as tensors, for datasets whose samples are in files.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include <cstddef>

#include "data/array.hpp"

namespace kolo::data {

// Reads rows of an array into a tensor [indices.size(), ...]. Throws DataError.
at::Tensor read_rows(const Array& array, c10::ArrayRef<std::size_t> indices);

// Throws InvalidArgumentError, which names `dataset`, for an index of `count` or above.
void require_samples(const char* dataset, c10::ArrayRef<std::size_t> indices, std::size_t count);

}  // namespace kolo::data
