// Lays out the arrays of a parcel in one piece of memory.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "delivery/message.hpp"
#include "delivery/parcel.hpp"

namespace kolo::delivery {

// Alignment of each array, for LibTorch's kernels.
inline constexpr std::size_t kAlignment = 64;

// Lays out the arrays one after the other; slot 0.
BatchPlaces place(const Parcel& parcel);

// Copies the arrays to their places. `memory` has at least places.size bytes.
void copy_to(const Parcel& parcel, const BatchPlaces& places, std::span<std::byte> memory);

// Returns the arrays and the zeros between them, in order: places.size bytes together.
std::vector<std::span<const std::byte>> payload_of(const Parcel& parcel, const BatchPlaces& places);

// Returns a parcel whose arrays lie in `memory`, which has at least places.size bytes.
Parcel parcel_in(std::span<std::byte> memory, const BatchPlaces& places,
                 std::shared_ptr<void> owner);

// Allocates aligned memory for a parcel; throws std::bad_alloc.
std::shared_ptr<std::byte> allocate(std::size_t bytes);

}  // namespace kolo::delivery
