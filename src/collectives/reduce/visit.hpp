// Maps a dtype, which is a value, to a C++ type. C++17, for CUDA's compiler.
#pragma once

#include <cstdint>

#include "core/types.hpp"

namespace kolo {

// Calls visitor with a value of the type that belongs to dtype. The host and a device have
// different types for the 16-bit ones. bool is stored as uint8.
template <typename Float16, typename Bfloat16, typename Visitor>
void visit(DType dtype, const Visitor& visitor) {
  switch (dtype) {
    case DType::kBool:
    case DType::kUint8:
      return visitor(std::uint8_t{});
    case DType::kInt8:
      return visitor(std::int8_t{});
    case DType::kInt16:
      return visitor(std::int16_t{});
    case DType::kInt32:
      return visitor(std::int32_t{});
    case DType::kInt64:
      return visitor(std::int64_t{});
    case DType::kFloat16:
      return visitor(Float16{});
    case DType::kBfloat16:
      return visitor(Bfloat16{});
    case DType::kFloat32:
      return visitor(float{});
    case DType::kFloat64:
      return visitor(double{});
  }
}

}  // namespace kolo
