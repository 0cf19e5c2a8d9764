#include "benchmarks/pattern.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace kolo::bench {
namespace {

// Mixes the bits (the constants are those of MurmurHash3's finalizer).
std::uint32_t mix(std::uint32_t bits) {
  bits = (bits ^ (bits >> 16)) * 0x85ebca6bU;
  bits = (bits ^ (bits >> 13)) * 0xc2b2ae35U;
  return bits ^ (bits >> 16);
}

float value(int rank, int round, std::size_t place) {
  const std::uint32_t row =
      mix(static_cast<std::uint32_t>(rank) + 65536U * static_cast<std::uint32_t>(round));
  return static_cast<float>(mix(row + static_cast<std::uint32_t>(place)) & 0xffU);
}

// Calls visit(at, place, length) for the stretches of `count` elements that lie in one period.
template <typename Visitor>
void for_each_stretch(std::size_t count, std::size_t offset, Visitor&& visit) {
  std::size_t place = offset % Pattern::kPeriod;
  for (std::size_t at = 0; at < count;) {
    const std::size_t length = std::min(Pattern::kPeriod - place, count - at);
    if (!visit(at, place, length)) return;
    at += length;
    place = 0;
  }
}

}  // namespace

Pattern::Pattern(int rank, int ranks, int round) : mine_(kPeriod), sum_(kPeriod) {
  for (int other = 0; other < ranks; ++other) {
    for (std::size_t place = 0; place < kPeriod; ++place) {
      const float one = value(other, round, place);
      sum_[place] += one;
      if (other == rank) mine_[place] = one;
    }
  }
}

void Pattern::fill(float* data, std::size_t count, std::size_t offset) const {
  for_each_stretch(count, offset, [&](std::size_t at, std::size_t place, std::size_t length) {
    std::copy_n(mine_.data() + place, length, data + at);
    return true;
  });
}

std::optional<Difference> Pattern::first_difference(const float* data, std::size_t count,
                                                    std::size_t offset) const {
  std::optional<Difference> difference;
  for_each_stretch(count, offset, [&](std::size_t at, std::size_t place, std::size_t length) {
    // Equal bits are equal values here, and comparing bytes is quick.
    if (std::memcmp(data + at, sum_.data() + place, length * sizeof(float)) == 0) return true;
    const float* found = std::mismatch(data + at, data + at + length, sum_.data() + place).first;
    if (found == data + at + length) return true;  // -0 for 0
    const auto index = static_cast<std::size_t>(found - data);
    difference = Difference{index, *found, sum_[place + index - at]};
    return false;
  });
  return difference;
}

}  // namespace kolo::bench
