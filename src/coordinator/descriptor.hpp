// What an operation on a tensor is: everything that all ranks must agree on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/types.hpp"

namespace kolo {

struct Descriptor {
  OpKind kind = OpKind::kAllreduce;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;
  ReduceOp op = ReduceOp::Sum;  // of an allreduce
  std::int32_t root = 0;        // of a broadcast
  double prescale = 1.0;        // of an allreduce
  double postscale = 1.0;       // of an allreduce

  bool operator==(const Descriptor&) const = default;

  std::size_t count() const;  // elements
  std::size_t bytes() const { return count() * size_of(dtype); }
};

// What differs, in words: "shape: [2, 3] on rank 0, [3, 2] on ranks 1, 2". Takes one descriptor a
// rank; empty if all are equal.
std::string describe_difference(const std::vector<const Descriptor*>& by_rank);

// "rank 3", "ranks 0, 1, 2" or, for many, "ranks 0-5, 7".
std::string rank_list(const std::vector<int>& ranks);

}  // namespace kolo
