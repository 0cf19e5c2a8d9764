// Random numbers for the transforms of one sample.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

namespace kolo::data {

// Returns a number from 0 to bound - 1, each equally likely, from a generator of 64 random bits.
// `bound` is 1 or more.
template <class Generator>
std::uint64_t random_below(std::uint64_t bound, Generator& generator) {
  // The lowest 2^64 mod bound numbers are rejected, so that each remainder is left equally often.
  const std::uint64_t rejected = (0 - bound) % bound;
  std::uint64_t number = generator();
  while (number < rejected) number = generator();
  return number % bound;
}

// A stream of random numbers that depends only on a seed, an epoch and a sample: it does not depend
// on the thread, batch, rank or run that loads the sample. The generator is SplitMix64 (G. Steele,
// D. Lea, C. Flood, OOPSLA 2014). It can be used with std::uniform_real_distribution and the like,
// whose results depend on the standard library.
class Random {
 public:
  // The type of the numbers.
  using result_type = std::uint64_t;

  // Makes the stream of a sample in an epoch. Streams of different `purpose` are independent.
  Random(std::uint64_t seed, std::uint64_t purpose, std::uint64_t epoch, std::uint64_t sample)
      : state_(mixed(mixed(mixed(mixed(seed) + purpose) + epoch) + sample)) {}

  // The smallest number that operator() returns.
  static constexpr result_type min() { return 0; }
  // The largest number that operator() returns.
  static constexpr result_type max() { return std::numeric_limits<result_type>::max(); }
  // The next 64 random bits.
  result_type operator()() {
    state_ += kGamma;
    return mixed(state_);
  }
  // At least 0 and below 1, in steps of 2^-53.
  double uniform() { return static_cast<double>((*this)() >> 11U) * 0x1p-53; }
  // At least 0 and below `bound`, each equally likely. `bound` is 1 or more.
  std::uint64_t below(std::uint64_t bound) { return random_below(bound, *this); }

 private:
  static constexpr std::uint64_t kGamma = 0x9E3779B97F4A7C15;

  static std::uint64_t mixed(std::uint64_t bits) {
    bits = (bits ^ (bits >> 30U)) * 0xBF58476D1CE4E5B9;
    bits = (bits ^ (bits >> 27U)) * 0x94D049BB133111EB;
    return bits ^ (bits >> 31U);
  }

  std::uint64_t state_;
};

}  // namespace kolo::data
