#include "core/types.hpp"

namespace kolo {

std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::kUint8:
    case DType::kInt8:
    case DType::kBool:
      return 1;
    case DType::kInt16:
    case DType::kFloat16:
    case DType::kBfloat16:
      return 2;
    case DType::kInt32:
    case DType::kFloat32:
      return 4;
    case DType::kInt64:
    case DType::kFloat64:
      return 8;
  }
  return 0;
}

bool is_floating(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBfloat16 || dtype == DType::kFloat32 ||
         dtype == DType::kFloat64;
}

const char* name_of(DType dtype) {
  static constexpr const char* kNames[kDTypeCount] = {"uint8",   "int8",    "int16",    "int32",
                                                      "int64",   "float16", "bfloat16", "float32",
                                                      "float64", "bool"};
  return kNames[static_cast<int>(dtype)];
}

const char* name_of(ReduceOp op) {
  static constexpr const char* kNames[kReduceOpCount] = {"Average", "Sum",     "Min",
                                                         "Max",     "Product", "Adasum"};
  return kNames[static_cast<int>(op)];
}

const char* name_of(DeviceKind device) {
  static constexpr const char* kNames[kDeviceKindCount] = {"cpu", "cuda"};
  return kNames[static_cast<int>(device)];
}

std::string to_string(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + "]";
}

}  // namespace kolo
