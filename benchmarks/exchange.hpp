// One rank's part in an operation: what it gives in, and what must come out.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "benchmarks/operation.hpp"
#include "benchmarks/pattern.hpp"

namespace kolo::bench {

constexpr int kSumOfAll = -1;
constexpr int kGroupedTensors = 16;

// Consecutive elements of a rank's input, or of the sum of all inputs.
struct Piece {
  int source = kSumOfAll;
  std::size_t offset = 0;
  std::size_t count = 0;
};

struct Exchange {
  Operation operation = Operation::kAllreduce;
  int rank = 0;
  int ranks = 1;
  std::size_t elements = 0;   // of each rank's input
  std::vector<int> give;      // how the input is cut: into tensors, or into what each rank gets
  std::vector<int> take;      // how the output is cut, by the rank from which it comes
  std::vector<Piece> result;  // one after the other

  int next() const { return (rank + 1) % ranks; }
  int previous() const { return (rank + ranks - 1) % ranks; }
  bool in_place() const;
  std::size_t result_elements() const;
  // Beside the input.
  std::size_t output_elements() const { return in_place() ? 0 : result_elements(); }

  // Writes this rank's values, and NaN over what an earlier sample has left in the output.
  void refresh(const Pattern& pattern, float* input, float* output) const;
  // Which element is wrong; empty if none is.
  std::string check(const Pattern& pattern, const float* values) const;
};

// `elements` in as many parts; where they cannot be cut evenly the first parts get one more. This
// is kolo's rule for reducescatter.
std::vector<int> shares(std::size_t elements, int parts);

// Grouped: 16 tensors, or as many as there are elements. Alltoall and reducescatter: shares() for
// each rank. Sendrecv: to the next rank, from the previous one. Broadcast: from rank 0.
Exchange exchange_of(Operation operation, std::size_t elements, int rank, int ranks);

}  // namespace kolo::bench
