// The values that a benchmark reduces: each rank's are known to all, and their sum is exact.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace kolo::bench {

struct Difference {
  std::size_t index = 0;
  float found = 0;
  float expected = 0;
};

// "element 3 of 'fc.bias' on rank 1 is 7, expected 9"; `whole` is what has the element.
std::string describe(const Difference& difference, const std::string& whole, int rank);

// Values of one round. They are integers from 0 to 255, so float32 sums of up to 65,536 ranks are
// exact. They differ by rank, position and round, so that a value of the wrong rank, place or round
// is noticed; they repeat after a prime number of elements, for cuts are at powers of two.
class Pattern {
 public:
  static constexpr std::size_t kPeriod = 4093;

  Pattern(int rank, int ranks, int round);

  int round() const { return round_; }

  // Writes this rank's values of the elements offset, offset + 1, ...
  void fill(float* data, std::size_t count, std::size_t offset = 0) const;

  // Writes the sum over all ranks.
  void fill_sum(float* data, std::size_t count, std::size_t offset = 0) const;

  // Compares with the sum over all ranks.
  std::optional<Difference> first_difference(const float* data, std::size_t count,
                                             std::size_t offset = 0) const;
  // Compares with the values of the rank `source`.
  std::optional<Difference> first_difference_from(int source, const float* data, std::size_t count,
                                                  std::size_t offset = 0) const;

 private:
  const int round_;
  std::vector<float> mine_;
  std::vector<float> sum_;
};

}  // namespace kolo::bench
