// A collective as a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

#include "core/operations.hpp"
#include "core/types.hpp"

namespace kolo {

// result = op over all of (value * prescale), / divisor, * postscale. Average only adds: `divisor`
// does the division. Integers are not divided: their divisor is 1.
struct Reduction {
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::Sum;  // combine() supports all but Adasum
  std::int64_t divisor = 1;
  double postscale = 1.0;
  double prescale = 1.0;
};

// One side of an alltoall: peer i's part is [boundaries[i], boundaries[i + 1]), in bytes.
struct AlltoallSide {
  void* data = nullptr;
  std::vector<std::size_t> boundaries;
};

// A rank's clock compared with rank 0's. All fields but `run` are nanoseconds of Clock; times count
// from its epoch.
struct ClockReading {
  std::int64_t at = 0;      // this rank's clock at the reading
  std::int64_t offset = 0;  // rank 0's clock at that moment, less `at`
  std::int64_t error = 0;   // most that the offset is off by, while both clocks run alike
  std::int64_t start = 0;   // rank 0's clock when it began to measure
  std::int64_t run = 0;     // rank 0's own value
};

// The work made from a collective owns its data until the work is done.
namespace collective {

// `count` elements, reduced in place.
struct Allreduce {
  static constexpr OpKind kKind = OpKind::kAllreduce;
  void* data = nullptr;
  std::size_t count = 0;
  Reduction reduction;
};

// Copies `bytes` bytes from the root's data to that of every other rank.
struct Broadcast {
  static constexpr OpKind kKind = OpKind::kBroadcast;
  void* data = nullptr;
  std::size_t bytes = 0;
  int root = 0;
};

// `boundaries` (one per rank and one more, in bytes, from 0) cut `data` into a segment for each
// rank. A rank's own segment is filled before, and all segments are filled afterwards.
struct Allgather {
  static constexpr OpKind kKind = OpKind::kAllgather;
  void* data = nullptr;
  std::vector<std::size_t> boundaries;
};

// `from` is not changed and does not overlap with `to`. The segment that a rank has for itself is
// not copied.
struct Alltoall {
  static constexpr OpKind kKind = OpKind::kAlltoall;
  AlltoallSide from;
  AlltoallSide to;
};

// `boundaries`, in elements, cut `data` into a segment for each rank. Afterwards a rank's own
// segment is reduced, and the contents of the others are unspecified. With a `result`, the reduced
// segment lies there, and `data` is unchanged. See Backend::takes_result().
struct Reducescatter {
  static constexpr OpKind kKind = OpKind::kReducescatter;
  void* data = nullptr;
  std::vector<std::size_t> boundaries;
  Reduction reduction;
  void* result = nullptr;
};

// Copies data from one rank to another. The other ranks do not take part.
struct Transfer {
  static constexpr OpKind kKind = OpKind::kSend;
  void* data = nullptr;
  std::size_t bytes = 0;
  int source = 0;
  int destination = 0;
};

// Fills `reading` with this rank's clock compared with that of the group's rank 0.
struct ReadClock {
  static constexpr OpKind kKind = OpKind::kClock;
  ClockReading* reading = nullptr;
};

}  // namespace collective

using Collective = std::variant<collective::Allreduce, collective::Broadcast, collective::Allgather,
                                collective::Alltoall, collective::Reducescatter,
                                collective::Transfer, collective::ReadClock>;

inline OpKind kind_of(const Collective& any) {
  return std::visit([](const auto& one) { return one.kKind; }, any);
}

// The operator of an allreduce or reducescatter; Sum for the others.
inline ReduceOp op_of(const Collective& any) {
  return std::visit(
      [](const auto& one) {
        if constexpr (requires { one.reduction; }) return one.reduction.op;
        return ReduceOp::Sum;
      },
      any);
}

}  // namespace kolo
