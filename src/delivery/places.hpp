// Where the arrays of a parcel lie in one piece of memory.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "delivery/message.hpp"
#include "delivery/parcel.hpp"

namespace kolo::delivery {

// Each array begins at a multiple of this, as LibTorch's kernels like it.
inline constexpr std::size_t kAlignment = 64;

// Puts the arrays one after the other; slot 0.
BatchPlaces place(const Parcel& parcel);

// Copies the arrays to their places. `memory` has places.size bytes or more.
void copy_to(const Parcel& parcel, const BatchPlaces& places, std::span<std::byte> memory);

// The arrays and the zeros between them, in the order of their places: places.size bytes.
std::vector<std::span<const std::byte>> payload_of(const Parcel& parcel, const BatchPlaces& places);

// The parcel whose arrays lie in `memory`, which has places.size bytes or more.
Parcel parcel_in(std::span<std::byte> memory, const BatchPlaces& places,
                 std::shared_ptr<void> owner);

// Memory for a parcel, aligned; throws std::bad_alloc.
std::shared_ptr<std::byte> allocate(std::size_t bytes);

}  // namespace kolo::delivery
