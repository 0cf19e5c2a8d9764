#include "kolo/seed.h"

#include <ATen/Context.h>

#include "kolo/init.h"

namespace kolo {

// Mixes the bits as SplitMix64 does (Steele, Lea and Flood 2014), so that adjacent seeds do not
// give related generators.
std::uint64_t manual_seed_per_rank(std::uint64_t seed) {
  std::uint64_t mixed = seed + 0x9E3779B97F4A7C15U * (static_cast<std::uint64_t>(rank()) + 1);
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9U;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBU;
  mixed ^= mixed >> 31;
  at::manual_seed(mixed);
  return mixed;
}

}  // namespace kolo
