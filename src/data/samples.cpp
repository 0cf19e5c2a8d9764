#include "data/samples.hpp"

#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "core/scalar_type.hpp"
#include "kolo/error.h"

namespace kolo::data {

at::Tensor read_rows(const Array& array, c10::ArrayRef<std::size_t> indices) {
  std::vector<std::int64_t> shape = array.form().shape();
  shape[0] = static_cast<std::int64_t>(indices.size());
  at::Tensor tensor = at::empty(shape, scalar_type(array.form().type()));
  array.read(indices.vec(), static_cast<std::uint8_t*>(tensor.data_ptr()));
  return tensor;
}

void require_samples(const char* dataset, c10::ArrayRef<std::size_t> indices, std::size_t count) {
  for (const std::size_t index : indices) {
    if (index < count) continue;
    throw InvalidArgumentError(std::string(dataset) + ": there is no sample " +
                               std::to_string(index) + " among " + std::to_string(count));
  }
}

}  // namespace kolo::data
