// Element types of tensors in checkpoints. core/types.hpp has those that can be reduced, which are
// fewer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kolo {

enum class ElementType : std::uint8_t {
  kBool = 0,
  kUint8 = 1,
  kInt8 = 2,
  kInt16 = 3,
  kInt32 = 4,
  kInt64 = 5,
  kUint16 = 6,
  kUint32 = 7,
  kUint64 = 8,
  kFloat16 = 9,
  kBfloat16 = 10,
  kFloat32 = 11,
  kFloat64 = 12,
  kComplex64 = 13,
  kComplex128 = 14,
  kFloat8E4m3fn = 15,
  kFloat8E5m2 = 16,
};
inline constexpr int kElementTypeCount = 17;

std::size_t size_of(ElementType type);                             // bytes of one element
const char* name_of(ElementType type);                             // PyTorch's: "float32"
std::optional<ElementType> element_type(const std::string& name);  // by name_of()

// Returns the number of elements of a shape, or nothing if that does not fit 63 bits or an extent
// is negative.
std::optional<std::uint64_t> elements_of(const std::vector<std::int64_t>& shape);

}  // namespace kolo
