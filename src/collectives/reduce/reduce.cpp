#include "collectives/reduce/reduce.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "collectives/reduce/half.hpp"
#include "collectives/reduce/visit.hpp"

namespace kolo {
namespace {

template <typename T>
inline constexpr bool kIsHalf = std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>;

inline Float16 from_float(float value, Float16 /*as*/) {
  return to_float16(value);
}
inline Bfloat16 from_float(float value, Bfloat16 /*as*/) {
  return to_bfloat16(value);
}

// Adds and multiplies in uint64, which wraps around without undefined behaviour.
template <typename T>
T applied(ReduceOp op, T a, T b) {
  switch (op) {
    case ReduceOp::Min:
      return std::min(a, b);
    case ReduceOp::Max:
      return std::max(a, b);
    case ReduceOp::Product:
      return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
    default:
      return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  }
}

template <typename T>
double widen(T value) {
  if constexpr (kIsHalf<T>) {
    return static_cast<double>(to_float(value));
  } else {
    return static_cast<double>(value);
  }
}

// Returns the exponent of the largest value. Values divided by that power of two are near 1 or
// smaller, so that their squares are finite.
template <typename T>
int largest_exponent(const T* values, std::size_t count) {
  double largest = 0;
  for (std::size_t i = 0; i < count; ++i) largest = std::max(largest, std::fabs(widen(values[i])));
  return std::clamp(std::ilogb(largest), -1000, 1000);
}

// Computes a (1 - ab / 2aa) + b (1 - ab / 2bb), with products of values that are scaled to near 1.
// Otherwise the factors of float32 tensors of very different size, and the squares of float64
// values, would not be finite.
template <typename T>
void adasum_typed(void* first, const void* second, std::size_t count) {
  T* a = static_cast<T*>(first);
  const T* b = static_cast<const T*>(second);
  const int exponent_a = largest_exponent(a, count);
  const int exponent_b = largest_exponent(b, count);
  const double to_one_a = std::ldexp(1.0, -exponent_a);
  const double to_one_b = std::ldexp(1.0, -exponent_b);
  double dot = 0;
  double square_a = 0;
  double square_b = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double x = widen(a[i]) * to_one_a;
    const double y = widen(b[i]) * to_one_b;
    dot += x * y;
    square_a += x * x;
    square_b += y * y;
  }
  const double part_a = square_a == 0 ? 0 : std::ldexp(dot / (2 * square_a), exponent_b);
  const double part_b = square_b == 0 ? 0 : std::ldexp(dot / (2 * square_b), exponent_a);
  for (std::size_t i = 0; i < count; ++i) {
    const double x = widen(a[i]);
    const double y = widen(b[i]);
    const double sum = (x - y * to_one_b * part_b) + (y - x * to_one_a * part_a);
    if constexpr (kIsHalf<T>) {
      a[i] = from_float(static_cast<float>(sum), T{});
    } else {
      a[i] = static_cast<T>(sum);
    }
  }
}

template <typename T>
T identity_of(ReduceOp op) {
  using Limits = std::numeric_limits<T>;
  switch (op) {
    case ReduceOp::Product:
      return T{1};
    case ReduceOp::Min:
      return Limits::has_infinity ? Limits::infinity() : Limits::max();
    case ReduceOp::Max:
      return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    case ReduceOp::Average:
    case ReduceOp::Sum:
    case ReduceOp::Adasum:
      break;
  }
  return T{0};
}

// Conversion of an out-of-range double to an integer is undefined, so it is clamped first. The
// largest int64 is no double; as one it is 2^63, and every double below that can be converted.
template <typename T>
T clamp_to(double value) {
  constexpr double kLow = static_cast<double>(std::numeric_limits<T>::min());
  constexpr T kMax = std::numeric_limits<T>::max();
  if (std::isnan(value)) return 0;
  if (value <= kLow) return std::numeric_limits<T>::min();
  if (value >= static_cast<double>(kMax)) return kMax;
  return static_cast<T>(value);
}

template <typename T>
void scale_loop(void* values, std::size_t count, double factor) {
  T* data = static_cast<T*>(values);
  const auto single = static_cast<float>(factor);
  for (std::size_t i = 0; i < count; ++i) {
    if constexpr (kIsHalf<T>) {
      data[i] = from_float(to_float(data[i]) * single, T{});
    } else if constexpr (std::is_same_v<T, float>) {
      data[i] *= single;
    } else if constexpr (std::is_same_v<T, double>) {
      data[i] *= factor;
    } else {
      data[i] = clamp_to<T>(static_cast<double>(data[i]) * factor);
    }
  }
}

}  // namespace

bool reduction_supported(DType dtype, ReduceOp op) {
  if (op == ReduceOp::Adasum) return is_floating(dtype);
  if (dtype != DType::kBool) return true;
  return op == ReduceOp::Min || op == ReduceOp::Max || op == ReduceOp::Product;
}

void reduce_integers(void* accumulator, const void* values, std::size_t count, DType dtype,
                     ReduceOp op) {
  visit<Float16, Bfloat16>(dtype, [&](auto type) {
    using T = decltype(type);
    if constexpr (std::is_integral_v<T>) {
      T* into = static_cast<T*>(accumulator);
      const T* from = static_cast<const T*>(values);
      for (std::size_t i = 0; i < count; ++i) into[i] = applied(op, into[i], from[i]);
    }
  });
}

void adasum(void* first, const void* second, std::size_t count, DType dtype) {
  visit<Float16, Bfloat16>(dtype, [&](auto type) {
    using T = decltype(type);
    if constexpr (!std::is_integral_v<T>) adasum_typed<T>(first, second, count);
  });
}

void fill_with_identity(void* values, std::size_t count, DType dtype, ReduceOp op) {
  visit<Float16, Bfloat16>(dtype, [&](auto type) {
    using T = decltype(type);
    T* data = static_cast<T*>(values);
    if constexpr (kIsHalf<T>) {
      std::fill(data, data + count, from_float(identity_of<float>(op), T{}));
    } else {
      // bool is stored as uint8: its largest value is 1.
      const T most = dtype == DType::kBool && op == ReduceOp::Min ? T{1} : identity_of<T>(op);
      std::fill(data, data + count, most);
    }
  });
}

void scale(void* values, std::size_t count, DType dtype, double factor) {
  if (dtype == DType::kBool || factor == 1.0) return;
  visit<Float16, Bfloat16>(dtype,
                           [&](auto type) { scale_loop<decltype(type)>(values, count, factor); });
}

}  // namespace kolo
