#include "benchmarks/pattern.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <sstream>
#include <utility>

namespace kolo::bench {
namespace {

// Mixes the bits (the constants are those of MurmurHash3's finalizer).
std::uint32_t mix(std::uint32_t bits) {
  bits = (bits ^ (bits >> 16)) * 0x85ebca6bU;
  bits = (bits ^ (bits >> 13)) * 0xc2b2ae35U;
  return bits ^ (bits >> 16);
}

// One period of a rank's values.
std::vector<float> values_of(int rank, int round) {
  const std::uint32_t row =
      mix(static_cast<std::uint32_t>(rank) + 65536U * static_cast<std::uint32_t>(round));
  std::vector<float> values(Pattern::kPeriod);
  for (std::size_t place = 0; place < values.size(); ++place) {
    values[place] = static_cast<float>(mix(row + static_cast<std::uint32_t>(place)) & 0xffU);
  }
  return values;
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

void repeat(const std::vector<float>& period, float* data, std::size_t count, std::size_t offset) {
  for_each_stretch(count, offset, [&](std::size_t at, std::size_t place, std::size_t length) {
    std::copy_n(period.data() + place, length, data + at);
    return true;
  });
}

std::optional<Difference> difference_between(const std::vector<float>& period, const float* data,
                                             std::size_t count, std::size_t offset) {
  std::optional<Difference> difference;
  for_each_stretch(count, offset, [&](std::size_t at, std::size_t place, std::size_t length) {
    // Equal bits are equal values here, and comparing bytes is quick.
    if (std::memcmp(data + at, period.data() + place, length * sizeof(float)) == 0) return true;
    const float* found = std::mismatch(data + at, data + at + length, period.data() + place).first;
    if (found == data + at + length) return true;  // -0 for 0
    const auto index = static_cast<std::size_t>(found - data);
    difference = Difference{index, *found, period[place + index - at]};
    return false;
  });
  return difference;
}

}  // namespace

std::string describe(const Difference& difference, const std::string& whole, int rank) {
  std::ostringstream text;
  text << "element " << difference.index << " of " << whole << " on rank " << rank << " is "
       << difference.found << ", expected " << difference.expected;
  return text.str();
}

Pattern::Pattern(int rank, int ranks, int round, int calls)
    : round_(round), calls_(calls), sum_(kPeriod) {
  for (int other = 0; other < ranks; ++other) {
    std::vector<float> values = values_of(other, round);
    std::transform(values.begin(), values.end(), sum_.begin(), sum_.begin(), std::plus<>());
    if (other == rank) mine_ = std::move(values);
  }
  in_place_ = sum_;
  // Beyond most_calls() nothing is promised but that it is a number.
  const auto factor = static_cast<float>(std::min(std::pow(ranks, calls - 1), 0x1p126));
  for (float& value : in_place_) value *= factor;
}

int Pattern::most_calls(int ranks, int wanted) {
  int odd = ranks;
  while (odd % 2 == 0) odd /= 2;
  // While a value is added up it comes so many times, of which the odd ones need most digits.
  // float32 has 24 and ends at 2^128.
  const int most_odd = ranks % 2 == 0 ? ranks - 1 : ranks;
  double digits = 255.0 * ranks;
  double value = digits;
  int calls = 1;
  while (calls < wanted && digits * most_odd <= 0x1p24 && value * ranks < 0x1p127) {
    digits *= odd;
    value *= ranks;
    ++calls;
  }
  return calls;
}

void Pattern::fill(float* data, std::size_t count, std::size_t offset) const {
  repeat(mine_, data, count, offset);
}

void Pattern::fill_sum(float* data, std::size_t count, std::size_t offset) const {
  repeat(in_place_, data, count, offset);
}

std::optional<Difference> Pattern::first_difference(const float* data, std::size_t count,
                                                    std::size_t offset) const {
  return difference_between(in_place_, data, count, offset);
}

std::optional<Difference> Pattern::first_difference_elsewhere(const float* data, std::size_t count,
                                                              std::size_t offset) const {
  return difference_between(sum_, data, count, offset);
}

std::optional<Difference> Pattern::first_difference_from(int source, const float* data,
                                                         std::size_t count,
                                                         std::size_t offset) const {
  return difference_between(values_of(source, round_), data, count, offset);
}

}  // namespace kolo::bench
