// Random numbers that differ between ranks.
#pragma once

#include <cstdint>

namespace kolo {

// Seeds LibTorch's default generators, of the CPU and of GPUs, with a number made from `seed` and
// this rank's number, and returns that number. Dropout, noise and augmentation then differ between
// ranks, and are the same in every run with as many ranks. Not collective. Call it after init(),
// and after the model is made, because parameters should be the same on all ranks (or be
// broadcast).
std::uint64_t manual_seed_per_rank(std::uint64_t seed);

}  // namespace kolo
