// Decides where each factor of a reduction is applied.
#pragma once

#include "collectives/collective.hpp"

namespace kolo {

struct Scaling {
  double before = 1.0;  // Memory::put() multiplies each value by it
  Reduction reduction;  // what the collective does
};

// Applies the prescale factor before the collective, and everything else in it.
Scaling scaled_before(const Reduction& reduction);
// Also moves a prescale factor that is still in the reduction to `before`: a device casts values
// while it packs them, and the factor may keep them from overflowing.
Scaling scaled_before(const Scaling& scaling);

// The same for collectives that store partial sums in the reduction's dtype. The largest partial
// sum of an average must not overflow if the average itself does not. float16 overflows at 65,520,
// so its values are also multiplied by a power of two, at most 1 / size, and the result by its
// inverse. That is exact except for values below 2^-14 / that power, which lose their last bits,
// and for values below 2^-25 / that power, which become zero. With one rank there are no sums, so a
// 16-bit value is multiplied by both factors at once and rounded once.
Scaling scaled_for_partial_sums(const Reduction& reduction, int size);

// The same for collectives that add all ranks' values in one pass of combine(). The prescale factor
// of the 16-bit dtypes stays in the reduction, so that results are rounded once.
Scaling scaled_in_one_pass(const Reduction& reduction);

}  // namespace kolo
