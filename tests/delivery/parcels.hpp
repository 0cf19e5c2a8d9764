// Parcels of text.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "delivery/parcel.hpp"

namespace kolo::delivery::test {

inline Parcel parcel_of(std::string text) {
  const auto held = std::make_shared<std::string>(std::move(text));
  Parcel parcel;
  parcel.arrays.push_back({ElementType::kUint8,
                           {static_cast<std::int64_t>(held->size())},
                           std::as_writable_bytes(std::span(held->data(), held->size()))});
  parcel.owner = held;
  return parcel;
}

inline std::string text_of(const Parcel& parcel) {
  const std::span<std::byte> bytes = parcel.arrays.at(0).bytes;
  std::string text(bytes.size(), '\0');
  if (!text.empty()) std::memcpy(text.data(), bytes.data(), bytes.size());
  return text;
}

}  // namespace kolo::delivery::test
