#include "delivery/places.hpp"

#include <array>
#include <cstring>
#include <new>
#include <utility>

namespace kolo::delivery {
namespace {

std::uint64_t aligned(std::uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

constexpr std::array<std::byte, kAlignment> kZeros{};

}  // namespace

BatchPlaces place(const Parcel& parcel) {
  BatchPlaces places;
  for (const Array& array : parcel.arrays) {
    places.arrays.push_back({array.type, array.shape, places.size});
    places.size += aligned(array.bytes.size());
  }
  return places;
}

void copy_to(const Parcel& parcel, const BatchPlaces& places, std::span<std::byte> memory) {
  for (std::size_t i = 0; i < parcel.arrays.size(); ++i) {
    const std::span<std::byte> bytes = parcel.arrays[i].bytes;
    if (!bytes.empty())
      std::memcpy(memory.data() + places.arrays[i].offset, bytes.data(), bytes.size());
  }
}

std::vector<std::span<const std::byte>> payload_of(const Parcel& parcel,
                                                   const BatchPlaces& places) {
  std::vector<std::span<const std::byte>> parts;
  std::uint64_t at = 0;
  const auto fill_up_to = [&](std::uint64_t offset) {
    if (offset > at) parts.emplace_back(kZeros.data(), static_cast<std::size_t>(offset - at));
    at = offset;
  };
  for (std::size_t i = 0; i < parcel.arrays.size(); ++i) {
    fill_up_to(places.arrays[i].offset);
    parts.emplace_back(parcel.arrays[i].bytes);
    at += parcel.arrays[i].bytes.size();
  }
  fill_up_to(places.size);
  return parts;
}

Parcel parcel_in(std::span<std::byte> memory, const BatchPlaces& places,
                 std::shared_ptr<void> owner) {
  Parcel parcel;
  parcel.owner = std::move(owner);
  for (const ArrayPlace& array : places.arrays) {
    const auto bytes = static_cast<std::size_t>(bytes_of(array).value());
    parcel.arrays.push_back(
        {array.type, array.shape, memory.subspan(static_cast<std::size_t>(array.offset), bytes)});
  }
  return parcel;
}

std::shared_ptr<std::byte> allocate(std::size_t bytes) {
  constexpr std::align_val_t kTo{kAlignment};
  auto* const memory = static_cast<std::byte*>(::operator new(bytes, kTo));
  return {memory, [](std::byte* at) { ::operator delete(at, kTo); }};
}

}  // namespace kolo::delivery
