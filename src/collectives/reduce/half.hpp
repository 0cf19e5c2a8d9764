// float16 (IEEE 754 binary16) and bfloat16 as storage: conversions to and from float32, rounding to
// nearest even.
#pragma once

#include <bit>
#include <cstdint>

namespace kolo {

struct Bfloat16 {
  std::uint16_t bits;
};

struct Float16 {
  std::uint16_t bits;
};

inline float to_float(Bfloat16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

inline Bfloat16 to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
  return {static_cast<std::uint16_t>(is_nan ? (bits >> 16) | 0x40U : rounded)};
}

inline float to_float(Float16 value) {
  const std::uint32_t sign = static_cast<std::uint32_t>(value.bits & 0x8000U) << 16;
  const std::uint32_t rest = value.bits & 0x7fffU;
  // Put exponent and mantissa where float32 has them. The multiplication by 2^112 corrects the bias
  // and normalises subnormals at once.
  const float scaled = std::bit_cast<float>(rest << 13) * 0x1p112F;
  const std::uint32_t inf_or_nan = rest >= 0x7c00U ? 0x7f800000U : 0U;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | inf_or_nan | sign);
}

inline Float16 to_float16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000U);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return {static_cast<std::uint16_t>(sign | 0x7e00U)};   // NaN
  if (magnitude >= 0x477ff000U) return {static_cast<std::uint16_t>(sign | 0x7c00U)};  // infinity
  if (magnitude < 0x38800000U) {
    // Subnormal or zero: adding 0.5 makes the float32 unit round the mantissa at the right place.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    const std::uint32_t mantissa = std::bit_cast<std::uint32_t>(shifted) - 0x3f000000U;
    return {static_cast<std::uint16_t>(sign | mantissa)};
  }
  const std::uint32_t odd = (magnitude >> 13) & 1U;
  const std::uint32_t rounded = (magnitude - 0x38000000U + 0xfffU + odd) >> 13;
  return {static_cast<std::uint16_t>(sign | rounded)};
}

}  // namespace kolo
