#include "collectives/reduce/reduce.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "collectives/reduce/combine.hpp"
#include "collectives/reduce/half.hpp"

namespace kolo {
namespace {

template <typename T>
std::vector<T> reduced(std::vector<T> a, const std::vector<T>& b, DType dtype, ReduceOp op) {
  combine_into(a.data(), b.data(), a.size(), {dtype, op});
  return a;
}

template <typename T>
void check_integers(DType dtype) {
  constexpr T kMax = std::numeric_limits<T>::max();
  const std::vector<T> a = {1, 2, 7, kMax};
  const std::vector<T> b = {3, 2, 5, 1};
  EXPECT_EQ(reduced(a, b, dtype, ReduceOp::Sum),
            (std::vector<T>{4, 4, 12, std::numeric_limits<T>::min()}));  // wraps around
  EXPECT_EQ(reduced(a, b, dtype, ReduceOp::Min), (std::vector<T>{1, 2, 5, 1}));
  EXPECT_EQ(reduced(a, b, dtype, ReduceOp::Max), (std::vector<T>{3, 2, 7, kMax}));
  EXPECT_EQ(reduced(a, b, dtype, ReduceOp::Product), (std::vector<T>{3, 4, 35, kMax}));
}

TEST(Reduce, Integers) {
  check_integers<std::uint8_t>(DType::kUint8);
  check_integers<std::int8_t>(DType::kInt8);
  check_integers<std::int16_t>(DType::kInt16);
  check_integers<std::int32_t>(DType::kInt32);
  check_integers<std::int64_t>(DType::kInt64);
}

template <typename T>
void check_floating(DType dtype) {
  const T nan = std::numeric_limits<T>::quiet_NaN();
  const T inf = std::numeric_limits<T>::infinity();
  const std::vector<T> a = {1.5, -2, inf, nan, 1};
  const std::vector<T> b = {2.5, 4, 1, 1, nan};
  const auto sum = reduced(a, b, dtype, ReduceOp::Sum);
  EXPECT_EQ(sum[0], 4);
  EXPECT_EQ(sum[1], 2);
  EXPECT_EQ(sum[2], inf);
  EXPECT_TRUE(std::isnan(sum[3]));
  for (const ReduceOp op : {ReduceOp::Min, ReduceOp::Max}) {
    const auto result = reduced(a, b, dtype, op);
    EXPECT_EQ(result[0], op == ReduceOp::Min ? T(1.5) : T(2.5));
    EXPECT_TRUE(std::isnan(result[3])) << "NaN first";
    EXPECT_TRUE(std::isnan(result[4])) << "NaN second";
  }
  EXPECT_EQ(reduced(a, b, dtype, ReduceOp::Product)[1], -8);
}

TEST(Reduce, Floating) {
  check_floating<float>(DType::kFloat32);
  check_floating<double>(DType::kFloat64);
}

TEST(Reduce, BoolHasNoSum) {
  EXPECT_FALSE(reduction_supported(DType::kBool, ReduceOp::Sum));
  EXPECT_FALSE(reduction_supported(DType::kBool, ReduceOp::Average));
  const std::vector<std::uint8_t> a = {0, 0, 1, 1};
  const std::vector<std::uint8_t> b = {0, 1, 0, 1};
  EXPECT_EQ(reduced(a, b, DType::kBool, ReduceOp::Max), (std::vector<std::uint8_t>{0, 1, 1, 1}));
  EXPECT_EQ(reduced(a, b, DType::kBool, ReduceOp::Min), (std::vector<std::uint8_t>{0, 0, 0, 1}));
}

// Every float16 is some float32, and comes back.
TEST(Half, EveryFloat16SurvivesTheRoundTrip) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const Float16 half{static_cast<std::uint16_t>(bits)};
    const float value = to_float(half);
    if (std::isnan(value)) {
      EXPECT_EQ(bits & 0x7c00U, 0x7c00U);
      EXPECT_TRUE(std::isnan(to_float(to_float16(value))));
    } else {
      EXPECT_EQ(to_float16(value).bits, bits);
    }
  }
}

// The value of a float16 from the definition in IEEE 754, without the tricks of the conversion.
double value_of(std::uint32_t bits) {
  const int exponent = static_cast<int>((bits >> 10) & 31);
  const double mantissa = bits & 1023;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

TEST(Half, Float16RoundsToNearestEven) {
  for (std::uint32_t bits = 0; bits < 0x7bff; ++bits) {  // all finite neighbours
    const double low = value_of(bits);
    const double high = value_of(bits + 1);
    EXPECT_EQ(to_float(Float16{static_cast<std::uint16_t>(bits)}), low);
    const auto middle = static_cast<float>((low + high) / 2);  // exact in float32
    EXPECT_EQ(to_float16(middle).bits, bits % 2 == 0 ? bits : bits + 1);
    EXPECT_EQ(to_float16(std::nextafter(middle, 1e9F)).bits, bits + 1);
    EXPECT_EQ(to_float16(std::nextafter(middle, -1.0F)).bits, bits);
  }
  EXPECT_EQ(to_float16(65519.996F).bits, 0x7bff);
  EXPECT_EQ(to_float16(65520.0F).bits, 0x7c00);
  EXPECT_EQ(to_float16(-1e30F).bits, 0xfc00);
}

TEST(Half, Bfloat16RoundsToNearestEven) {
  for (std::uint32_t bits = 0; bits < 0x7f7f; ++bits) {
    const float low = to_float(Bfloat16{static_cast<std::uint16_t>(bits)});
    const float high = to_float(Bfloat16{static_cast<std::uint16_t>(bits + 1)});
    const float middle = static_cast<float>((static_cast<double>(low) + high) / 2);
    EXPECT_EQ(to_bfloat16(low).bits, bits);
    EXPECT_EQ(to_bfloat16(middle).bits, bits % 2 == 0 ? bits : bits + 1);
  }
  EXPECT_TRUE(std::isnan(to_float(to_bfloat16(std::nanf("")))));
  // A NaN whose set mantissa bits would all be cut off must stay a NaN.
  EXPECT_TRUE(std::isnan(to_float(to_bfloat16(std::bit_cast<float>(0x7f800001U)))));
  EXPECT_EQ(to_bfloat16(std::numeric_limits<float>::max()).bits, 0x7f80);
}

TEST(Reduce, HalvesAreComputedInFloat32) {
  const std::vector<std::uint16_t> one = {to_float16(1.0F).bits};
  const std::vector<std::uint16_t> third = {to_float16(0.333F).bits};
  EXPECT_EQ(reduced(one, third, DType::kFloat16, ReduceOp::Sum)[0],
            to_float16(1.0F + to_float(Float16{third[0]})).bits);
  const std::vector<std::uint16_t> b_one = {to_bfloat16(1.0F).bits};
  const std::vector<std::uint16_t> b_three = {to_bfloat16(3.0F).bits};
  EXPECT_EQ(to_float(Bfloat16{reduced(b_one, b_three, DType::kBfloat16, ReduceOp::Product)[0]}),
            3.0F);
}

TEST(Scale, IntegersAreClampedAndTruncated) {
  std::vector<std::int8_t> values = {100, -100, 3, -3};
  scale(values.data(), values.size(), DType::kInt8, 1.5);
  EXPECT_EQ(values, (std::vector<std::int8_t>{127, -128, 4, -4}));
  std::vector<std::int64_t> large = {std::numeric_limits<std::int64_t>::max()};
  scale(large.data(), 1, DType::kInt64, 2.0);
  EXPECT_EQ(large[0], std::numeric_limits<std::int64_t>::max());
  std::vector<float> single = {3.0F};
  scale(single.data(), 1, DType::kFloat32, 0.5);
  EXPECT_EQ(single[0], 1.5F);
}

}  // namespace
}  // namespace kolo
