// dtypes and operations as run-time values, and what each is called in messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kolo/types.h"

namespace kolo {

enum class DType : std::uint8_t {
  kUint8 = 0,
  kInt8 = 1,
  kInt16 = 2,
  kInt32 = 3,
  kInt64 = 4,
  kFloat16 = 5,
  kBfloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBool = 9,
};
inline constexpr int kDTypeCount = 10;

// Where a tensor lies.
enum class DeviceKind : std::uint8_t {
  kCpu = 0,
  kCuda = 1,
};
inline constexpr int kDeviceKindCount = 2;

enum class OpKind : std::uint8_t {
  kAllreduce = 0,
  kBroadcast = 1,
  kAllgather = 2,
  kAlltoall = 3,
  kReducescatter = 4,
  kBarrier = 5,
  kJoin = 6,
  kAddProcessSet = 7,     // the shape of its tensor is the list of ranks
  kRemoveProcessSet = 8,  // the shape of its tensor is the number of the set
  kSend = 9,              // from one rank to another; no others take part
  kClock = 10,            // its tensor is a ClockReading (algorithms.hpp)
};
inline constexpr int kOpKindCount = 11;
inline constexpr int kReduceOpCount = 6;

std::size_t size_of(DType dtype);  // bytes of one element
bool is_floating(DType dtype);
const char* name_of(DType dtype);        // "float32"
const char* name_of(OpKind kind);        // "allreduce"
const char* name_of(ReduceOp op);        // "Sum"
const char* name_of(DeviceKind device);  // "cuda"

std::string to_string(const std::vector<std::int64_t>& shape);  // "[2, 3]"

}  // namespace kolo
