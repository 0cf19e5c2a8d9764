// A batch as bytes: its arrays, and the owner of their memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/element_type.hpp"

namespace kolo::delivery {

// Elements in row-major order.
struct Array {
  ElementType type = ElementType::kUint8;
  std::vector<std::int64_t> shape;
  std::span<std::byte> bytes;
};

struct Parcel {
  std::vector<Array> arrays;
  std::shared_ptr<void> owner;  // owns their memory
};

inline std::size_t bytes_of(const Parcel& parcel) {
  std::size_t bytes = 0;
  for (const Array& array : parcel.arrays) bytes += array.bytes.size();
  return bytes;
}

// Loads the samples of an epoch. Used by one thread.
using LoadParcel =
    std::function<Parcel(std::uint64_t epoch, const std::vector<std::size_t>& samples)>;

}  // namespace kolo::delivery
