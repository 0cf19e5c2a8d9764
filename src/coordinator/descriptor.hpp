// The description of an operation: everything that all ranks must agree on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/operations.hpp"
#include "core/types.hpp"

namespace kolo {

struct TensorSpec {
  DType dtype = DType::kFloat32;    // of the numbers that are sent
  std::vector<std::int64_t> shape;  // see has_own_rows()
  std::string name = {};            // for messages; may be empty
  // The tensor's own dtype where each element is sent as two numbers of `dtype`, which are the last
  // dimension of `shape`: "complex64". Otherwise empty.
  std::string element = {};
  // The dimensions in the order in which they lie in memory; empty where that is their own order.
  std::vector<std::int64_t> order = {};

  bool operator==(const TensorSpec&) const = default;

  std::size_t count() const;  // elements
  std::size_t bytes() const { return count() * size_of(dtype); }
};

struct Descriptor {
  OpKind kind = OpKind::kAllreduce;
  std::vector<TensorSpec> tensors;  // one; those of a group, which go together; none for a barrier
  ReduceOp op = ReduceOp::Sum;      // of reductions, as the scales
  std::int32_t root = 0;            // of a broadcast or reduce, or who sends: a rank of the world
  std::int32_t destination = 0;     // of a send: likewise
  double prescale = 1.0;
  double postscale = 1.0;
  DeviceKind device = DeviceKind::kCpu;  // where all of its tensors are
  // What the tensors encode, such as "a sparse tensor of size [3, 2]"; empty: only themselves.
  std::string content = {};
  // The reason why this rank cannot take part: a wrong argument. The operation fails on every rank.
  std::string refusal = {};

  bool operator==(const Descriptor&) const = default;

  // Whether each rank has an extent of its own in dimension 0. Shapes then lack that dimension:
  // they are those of one row.
  bool has_own_rows() const { return traits_of(kind).has_own_rows; }

  // Whether only two ranks take part, a sender and a receiver.
  bool is_between_two() const { return traits_of(kind).is_between_two; }

  std::size_t bytes() const;  // of all tensors
};

// The number of rows, of `rows`, that a reducescatter over `size` ranks gives to a rank. The first
// ranks get one of the remaining rows each.
std::int64_t rows_of(std::int64_t rows, int rank, int size);

// Text of the differences: "shape: [2, 3] on rank 0, [3, 2] on ranks 1, 2"; empty if all are equal.
// Takes one descriptor for each rank, and the ranks' numbers in the world.
std::string describe_difference(const std::vector<const Descriptor*>& by_rank,
                                const std::vector<int>& ranks);

}  // namespace kolo
