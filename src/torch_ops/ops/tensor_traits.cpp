#include "torch_ops/ops/tensor_traits.hpp"

#include <ATen/core/Tensor.h>

#include <algorithm>

namespace kolo {

std::optional<DType> dtype_sent(at::ScalarType type) {
  switch (type) {
    case at::kByte:
      return DType::kUint8;
    case at::kChar:
      return DType::kInt8;
    case at::kShort:
      return DType::kInt16;
    case at::kInt:
      return DType::kInt32;
    case at::kLong:
      return DType::kInt64;
    case at::kHalf:
      return DType::kFloat16;
    case at::kBFloat16:
      return DType::kBfloat16;
    case at::kFloat:
    case at::kComplexFloat:
      return DType::kFloat32;
    case at::kDouble:
    case at::kComplexDouble:
      return DType::kFloat64;
    case at::kBool:
      return DType::kBool;
    default:
      return std::nullopt;
  }
}

std::string name_of(at::ScalarType type) {
  if (type == at::kComplexFloat) return "complex64";
  if (type == at::kComplexDouble) return "complex128";
  return name_of(*dtype_sent(type));
}

std::vector<std::int64_t> order_in_memory(const at::Tensor& tensor) {
  std::vector<std::int64_t> order;
  for (std::int64_t i = 0; i < tensor.dim(); ++i) {
    if (tensor.size(i) != 1) order.push_back(i);
  }
  std::sort(order.begin(), order.end(),
            [&](std::int64_t a, std::int64_t b) { return tensor.stride(a) > tensor.stride(b); });
  return order;
}

// A view that LibTorch negates or conjugates on reading, such as imag(conj(z)), has other values
// than its memory.
bool is_reduced_in_place(const at::Tensor& tensor) {
  return tensor.is_non_overlapping_and_dense() && !tensor.is_neg() && !tensor.is_conj();
}

}  // namespace kolo
