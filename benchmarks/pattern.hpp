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
//
// Sums in place may follow each other `calls` times, each of what the one before has left: from the
// second on all ranks have the same, so each multiplies by the number of ranks, and one that is
// left out or done twice is noticed.
class Pattern {
 public:
  static constexpr std::size_t kPeriod = 4093;

  // calls: at most most_calls(ranks).
  Pattern(int rank, int ranks, int round, int calls = 1);

  // How many sums in place may follow each other, up to `wanted`, and be exact.
  static int most_calls(int ranks, int wanted);

  int round() const { return round_; }
  int calls() const { return calls_; }

  // Writes this rank's values of the elements offset, offset + 1, ...
  void fill(float* data, std::size_t count, std::size_t offset = 0) const;

  // Writes what sums over all ranks leave in place.
  void fill_sum(float* data, std::size_t count, std::size_t offset = 0) const;

  // Compares with what sums over all ranks leave in place.
  std::optional<Difference> first_difference(const float* data, std::size_t count,
                                             std::size_t offset = 0) const;
  // Compares with one sum of the values, however often it was computed.
  std::optional<Difference> first_difference_elsewhere(const float* data, std::size_t count,
                                                       std::size_t offset = 0) const;
  // Compares with the values of the rank `source`.
  std::optional<Difference> first_difference_from(int source, const float* data, std::size_t count,
                                                  std::size_t offset = 0) const;

 private:
  const int round_;
  const int calls_;
  std::vector<float> mine_;
  std::vector<float> sum_;       // of one call
  std::vector<float> in_place_;  // of all calls
};

}  // namespace kolo::bench
