// LibTorch's dtypes for the element types of files, for code that uses LibTorch.
#pragma once

#include <c10/core/ScalarType.h>

#include <optional>

#include "core/element_type.hpp"

namespace kolo {

inline constexpr at::ScalarType kScalarTypes[kElementTypeCount] = {
    at::kBool,          at::kByte,       at::kChar,   at::kShort,        at::kInt,
    at::kLong,          at::kUInt16,     at::kUInt32, at::kUInt64,       at::kHalf,
    at::kBFloat16,      at::kFloat,      at::kDouble, at::kComplexFloat, at::kComplexDouble,
    at::kFloat8_e4m3fn, at::kFloat8_e5m2};

inline at::ScalarType scalar_type(ElementType type) {
  return kScalarTypes[static_cast<std::size_t>(type)];
}

// std::nullopt for a dtype that files do not have.
inline std::optional<ElementType> element_type(at::ScalarType dtype) {
  for (int i = 0; i < kElementTypeCount; ++i)
    if (kScalarTypes[i] == dtype) return static_cast<ElementType>(i);
  return std::nullopt;
}

}  // namespace kolo
