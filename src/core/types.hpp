// dtypes, operators and devices as run-time values, and their names in messages.
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

// The kind of device that holds a tensor.
enum class DeviceKind : std::uint8_t {
  kCpu = 0,
  kCuda = 1,
};
inline constexpr int kDeviceKindCount = 2;

inline constexpr int kReduceOpCount = 6;

std::size_t size_of(DType dtype);  // bytes of one element
bool is_floating(DType dtype);
const char* name_of(DType dtype);        // "float32"
const char* name_of(ReduceOp op);        // "Sum"
const char* name_of(DeviceKind device);  // "cuda"

std::string to_string(const std::vector<std::int64_t>& shape);  // "[2, 3]"

}  // namespace kolo
