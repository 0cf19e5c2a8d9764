// The kernel that everything is reduced with: one pass over the same range of many ranks' tensors,
// from all of them and to all of them at once. Vectorised with Google Highway, for the best
// instruction set that the machine has.
#pragma once

#include <cstddef>
#include <span>

#include "collectives/collective.hpp"
#include "core/types.hpp"

namespace kolo {

// Where a result goes to.
struct Destination {
  void* data = nullptr;
  // Stores that go around the cache: for ranges larger than a core's share of the cache that this
  // core will not read soon. The range is in memory when combine() returns.
  bool streaming = false;
};

// Reduces count elements of all sources, in the order of the sources, and puts the result to every
// destination. A destination may be one of the sources; otherwise ranges do not overlap. No
// alignment is needed beyond the element's; with 64 bytes it is fastest. The same values give the
// same bits on every machine, whatever the count and however ranges are cut (NaNs may differ in
// payload):
//  - floating point: prescale, sum and so on in float32 (float64 for float64), rounded to nearest
//    even once, at the end. Min and Max give NaN where any source has NaN.
//  - integers: sums and products wrap around. prescale and postscale as scale() does.
//  - bool: Min and Product are "and", Max is "or"; neither is scaled nor divided.
void combine(std::span<const void* const> sources, std::span<const Destination> destinations,
             std::size_t count, const Reduction& reduction);

// Copies bytes. Streaming: for what another core will read, see Destination.
void copy(void* to, const void* from, std::size_t bytes, bool streaming);

// For what is reduced two tensors at a time: step_of() is all but the scales, finish() is divisor
// and postscale alone.
Reduction step_of(const Reduction& reduction);
void combine_into(void* accumulator, const void* values, std::size_t count,
                  const Reduction& reduction);
void finish(void* values, std::size_t count, const Reduction& reduction);

}  // namespace kolo
