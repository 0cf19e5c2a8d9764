// The kernel of all reductions: one pass over the same range of many ranks' tensors, which reads
// all of them and writes all of them at once. Vectorised with Google Highway, for the best
// instruction set that the machine has.
#pragma once

#include <cstddef>
#include <span>

#include "collectives/collective.hpp"
#include "core/types.hpp"

namespace kolo {

// A place that a result is written to.
struct Destination {
  void* data = nullptr;
  // Whether stores go around the cache: for ranges larger than a core's share of the cache that
  // this core will not read soon. The range is in memory when combine() returns.
  bool streaming = false;
};

// Reduces count elements of all sources, in the order of the sources, and writes the result to
// every destination. A destination may be one of the sources; otherwise ranges do not overlap. No
// alignment is needed beyond the element's; with 64 bytes it is fastest. The same values give the
// same bits on every machine, whatever the count and however ranges are cut (NaNs may differ in
// payload):
//  - floating point: prescale, sum and so on in float32 (float64 for float64), rounded to nearest
//    even once, at the end. Min and Max give NaN where any source has NaN.
//  - integers: sums and products wrap around. prescale and postscale as scale() does.
//  - bool: Min and Product are "and", Max is "or"; neither is scaled nor divided.
void combine(std::span<const void* const> sources, std::span<const Destination> destinations,
             std::size_t count, const Reduction& reduction);

// Copies bytes. `streaming`: for data that another core will read, see Destination.
void copy(void* to, const void* from, std::size_t bytes, bool streaming);

// For reductions of two tensors at a time. step_of() returns the reduction without divisor and
// factors. finish() applies divisor and postscale alone.
Reduction step_of(const Reduction& reduction);
void combine_into(void* accumulator, const void* values, std::size_t count,
                  const Reduction& reduction);
void finish(void* values, std::size_t count, const Reduction& reduction);

}  // namespace kolo
