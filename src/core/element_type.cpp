#include "core/element_type.hpp"

#include <array>

namespace kolo {
namespace {

struct Row {
  const char* name;
  std::size_t size;
};

constexpr std::array<Row, kElementTypeCount> kRows = {{
    {"bool", 1},
    {"uint8", 1},
    {"int8", 1},
    {"int16", 2},
    {"int32", 4},
    {"int64", 8},
    {"uint16", 2},
    {"uint32", 4},
    {"uint64", 8},
    {"float16", 2},
    {"bfloat16", 2},
    {"float32", 4},
    {"float64", 8},
    {"complex64", 8},
    {"complex128", 16},
    {"float8_e4m3fn", 1},
    {"float8_e5m2", 1},
}};

}  // namespace

std::size_t size_of(ElementType type) {
  return kRows[static_cast<std::size_t>(type)].size;
}

const char* name_of(ElementType type) {
  return kRows[static_cast<std::size_t>(type)].name;
}

std::optional<ElementType> element_type(const std::string& name) {
  for (std::size_t i = 0; i < kRows.size(); ++i)
    if (name == kRows[i].name) return static_cast<ElementType>(i);
  return std::nullopt;
}

std::optional<std::uint64_t> elements_of(const std::vector<std::int64_t>& shape) {
  std::int64_t elements = 1;
  bool fits = true;
  for (const std::int64_t extent : shape) {
    if (extent < 0) return std::nullopt;
    // With an extent of 0 there are no elements, however large the others are.
    if (extent == 0) return 0;
  }
  for (const std::int64_t extent : shape)
    fits = fits && !__builtin_mul_overflow(elements, extent, &elements);
  if (!fits) return std::nullopt;
  return static_cast<std::uint64_t>(elements);
}

}  // namespace kolo
