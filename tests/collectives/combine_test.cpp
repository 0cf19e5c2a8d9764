#include "collectives/reduce/combine.hpp"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "collectives/reduce/half.hpp"
#include "collectives/reduce/reduce.hpp"

namespace kolo {
namespace {

using Bytes = std::vector<std::byte>;

// --- what is expected: one element after the other, as the header says ---

float wide(Float16 value) {
  return to_float(value);
}
float wide(Bfloat16 value) {
  return to_float(value);
}
float wide(float value) {
  return value;
}
double wide(double value) {
  return value;
}
void narrow(float value, Float16& into) {
  into = to_float16(value);
}
void narrow(float value, Bfloat16& into) {
  into = to_bfloat16(value);
}
void narrow(float value, float& into) {
  into = value;
}
void narrow(double value, double& into) {
  into = value;
}

template <typename T>
T applied(ReduceOp op, T a, T b) {
  if (op == ReduceOp::Product) return a * b;
  if (op == ReduceOp::Min) return std::isnan(a) || std::isnan(b) ? a + b : std::min(a, b);
  if (op == ReduceOp::Max) return std::isnan(a) || std::isnan(b) ? a + b : std::max(a, b);
  return a + b;
}

template <typename T>
void expect_floats(const std::vector<Bytes>& sources, std::size_t i, const Reduction& reduction,
                   const std::byte* result) {
  const auto element = [&](std::size_t source) {
    T value;
    std::memcpy(&value, sources[source].data() + i * sizeof(T), sizeof(T));
    using Wide = decltype(wide(value));
    return static_cast<Wide>(wide(value) * static_cast<Wide>(reduction.prescale));
  };
  auto sum = element(0);
  using Wide = decltype(sum);
  for (std::size_t s = 1; s < sources.size(); ++s) sum = applied(reduction.op, sum, element(s));
  sum = sum / static_cast<Wide>(reduction.divisor) * static_cast<Wide>(reduction.postscale);
  T expected;
  narrow(sum, expected);
  T found;
  std::memcpy(&found, result, sizeof(T));
  if (std::isnan(wide(expected))) {
    ASSERT_TRUE(std::isnan(wide(found))) << "element " << i;
  } else {
    ASSERT_EQ(std::memcmp(&found, &expected, sizeof(T)), 0)
        << "element " << i << ": " << wide(found) << ", not " << wide(expected);
  }
}

// By the scalar functions, which have tests of their own.
void expect_integers(const std::vector<Bytes>& sources, std::size_t i, const Reduction& reduction,
                     const std::byte* result) {
  const DType dtype = reduction.dtype;
  const std::size_t width = size_of(dtype);
  const auto element = [&](std::size_t source) {
    const auto first = sources[source].begin() + static_cast<std::ptrdiff_t>(i * width);
    Bytes value(first, first + static_cast<std::ptrdiff_t>(width));
    scale(value.data(), 1, dtype, reduction.prescale);
    return value;
  };
  Bytes sum = element(0);
  for (std::size_t s = 1; s < sources.size(); ++s)
    reduce_integers(sum.data(), element(s).data(), 1, dtype, reduction.op);
  scale(sum.data(), 1, dtype, reduction.postscale);
  ASSERT_EQ(std::memcmp(result, sum.data(), width), 0) << "element " << i;
}

void expect_element(const std::vector<Bytes>& sources, std::size_t i, const Reduction& reduction,
                    const std::byte* result) {
  switch (reduction.dtype) {
    case DType::kFloat16:
      return expect_floats<Float16>(sources, i, reduction, result);
    case DType::kBfloat16:
      return expect_floats<Bfloat16>(sources, i, reduction, result);
    case DType::kFloat32:
      return expect_floats<float>(sources, i, reduction, result);
    case DType::kFloat64:
      return expect_floats<double>(sources, i, reduction, result);
    default:
      return expect_integers(sources, i, reduction, result);
  }
}

// --- values ---

// Any bits at all: subnormal numbers, infinities, NaNs among them. Half of the floating point
// values are ordinary ones, so that sums are not all infinite.
Bytes random_values(DType dtype, std::size_t count, std::mt19937& random) {
  Bytes bytes(count * size_of(dtype));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  for (std::size_t i = 0; i < count; ++i) {
    const float ordinary = static_cast<float>(static_cast<int>(random() % 20001) - 10000) / 64;
    std::byte* const at = bytes.data() + i * size_of(dtype);
    if (dtype == DType::kBool) *at &= std::byte{1};
    if (random() % 2 == 0) continue;
    if (dtype == DType::kFloat32) std::memcpy(at, &ordinary, sizeof ordinary);
    const double precise = ordinary;
    if (dtype == DType::kFloat64) std::memcpy(at, &precise, sizeof precise);
    const Float16 half = to_float16(ordinary);
    if (dtype == DType::kFloat16) std::memcpy(at, &half, sizeof half);
    const Bfloat16 brain = to_bfloat16(ordinary);
    if (dtype == DType::kBfloat16) std::memcpy(at, &brain, sizeof brain);
  }
  return bytes;
}

constexpr DType kDTypes[] = {DType::kBool,    DType::kUint8,  DType::kInt8,    DType::kInt16,
                             DType::kInt32,   DType::kInt64,  DType::kFloat16, DType::kBfloat16,
                             DType::kFloat32, DType::kFloat64};
constexpr ReduceOp kOps[] = {ReduceOp::Sum, ReduceOp::Average, ReduceOp::Min, ReduceOp::Max,
                             ReduceOp::Product};

// Memory with a margin on both sides that must stay as it is.
class Guarded {
 public:
  Guarded(const Bytes& bytes, std::size_t offset)
      : memory_(bytes.size() + offset + 2 * kMargin, std::byte{0xa5}), size_(bytes.size()) {
    const std::size_t address = reinterpret_cast<std::uintptr_t>(memory_.data()) + kMargin / 2;
    begin_ = kMargin / 2 + (64 - address % 64) % 64 + offset;
    std::copy(bytes.begin(), bytes.end(), memory_.begin() + static_cast<std::ptrdiff_t>(begin_));
  }
  std::byte* data() { return memory_.data() + begin_; }
  bool margins_are_whole() const {
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      const bool inside = i >= begin_ && i < begin_ + size_;
      if (!inside && memory_[i] != std::byte{0xa5}) return false;
    }
    return true;
  }

 private:
  static constexpr std::size_t kMargin = 256;
  Bytes memory_;
  std::size_t size_;
  std::size_t begin_ = 0;
};

// All instruction sets that this machine has.
class Combine : public testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

std::vector<std::int64_t> targets() {
  std::vector<std::int64_t> found;
  std::int64_t left = hwy::SupportedTargets();
  for (; left != 0; left &= left - 1) found.push_back(left & -left);
  return found;
}

std::string target_name(const testing::TestParamInfo<std::int64_t>& info) {
  return hwy::TargetName(info.param);
}

struct Layout {
  std::size_t count;
  std::size_t sources;
  std::size_t extra_destinations;  // beside all of the sources
  bool streaming;
  std::size_t offset;  // in elements, from an address that is a multiple of 64
};

void check(const Reduction& reduction, const Layout& layout, std::mt19937& random) {
  std::vector<Bytes> values;
  std::vector<Guarded> memory;
  for (std::size_t s = 0; s < layout.sources; ++s)
    values.push_back(random_values(reduction.dtype, layout.count, random));
  for (std::size_t s = 0; s < layout.sources + layout.extra_destinations; ++s)
    memory.emplace_back(values[s % layout.sources], layout.offset * size_of(reduction.dtype));
  std::vector<const void*> sources;
  std::vector<Destination> destinations;
  for (Guarded& one : memory) {
    if (sources.size() < layout.sources) sources.push_back(one.data());
    destinations.push_back({one.data(), layout.streaming});
  }
  combine(sources, destinations, layout.count, reduction);
  for (Guarded& one : memory) {
    ASSERT_TRUE(one.margins_are_whole());
    for (std::size_t i = 0; i < layout.count; ++i) {
      expect_element(values, i, reduction, one.data() + i * size_of(reduction.dtype));
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST_P(Combine, EveryDTypeAndOperator) {
  std::mt19937 random(1);
  for (const DType dtype : kDTypes) {
    for (const ReduceOp op : kOps) {
      if (!reduction_supported(dtype, op)) continue;
      for (const std::size_t sources : {1, 2, 3, 4, 8, 13}) {
        const Layout layout{random() % 700, sources, random() % 2, random() % 2 == 0,
                            random() % 3 == 0 ? random() % 5 : 0};
        SCOPED_TRACE(std::string(name_of(dtype)) + ", operator " + std::to_string(int(op)) + ", " +
                     std::to_string(sources) + " sources, " + std::to_string(layout.count));
        check({dtype, op}, layout, random);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(Combine, Scales) {
  std::mt19937 random(2);
  for (const DType dtype : kDTypes) {
    if (dtype == DType::kBool) continue;
    for (const std::size_t count : {1, 63, 200}) {
      SCOPED_TRACE(name_of(dtype));
      check({dtype, ReduceOp::Average, 3, 1.0, 1.0}, {count, 3, 0, false, 0}, random);
      check({dtype, ReduceOp::Sum, 1, 0.3, 1.0}, {count, 2, 0, true, 0}, random);
      check({dtype, ReduceOp::Sum, 1, 1.0, 1.7}, {count, 2, 1, true, 0}, random);
      check({dtype, ReduceOp::Average, 7, 0.3, 1.7}, {count, 7, 0, false, 1}, random);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(Combine, BoolIsNeitherScaledNorDivided) {
  std::uint8_t a[] = {0, 0, 1, 1};
  std::uint8_t b[] = {0, 1, 0, 1};
  std::uint8_t both[] = {9, 9, 9, 9};
  const std::vector<const void*> sources = {a, b};
  const std::vector<Destination> destination = {{both}};
  combine(sources, destination, 4, {DType::kBool, ReduceOp::Product, 2, 3.0, 3.0});
  EXPECT_EQ(std::vector<std::uint8_t>(both, both + 4), (std::vector<std::uint8_t>{0, 0, 0, 1}));
  combine(sources, destination, 4, {DType::kBool, ReduceOp::Max});
  EXPECT_EQ(std::vector<std::uint8_t>(both, both + 4), (std::vector<std::uint8_t>{0, 1, 1, 1}));
}

// Where a range is cut must not change a bit, since ranks cut what they reduce.
TEST_P(Combine, CutsDoNotMatter) {
  std::mt19937 random(3);
  constexpr std::size_t kCount = 1000;
  for (const DType dtype : {DType::kFloat16, DType::kBfloat16, DType::kFloat32, DType::kFloat64}) {
    const Reduction reduction{dtype, ReduceOp::Average, 3, 1.1, 0.9};
    std::vector<Bytes> values;
    for (int s = 0; s < 3; ++s) values.push_back(random_values(dtype, kCount, random));
    const auto combined = [&](const std::vector<std::size_t>& cuts) {
      Bytes result(kCount * size_of(dtype));
      for (std::size_t c = 0; c + 1 < cuts.size(); ++c) {
        const std::size_t at = cuts[c] * size_of(dtype);
        const std::vector<const void*> sources = {&values[0][at], &values[1][at], &values[2][at]};
        const std::vector<Destination> destination = {{&result[at], true}};
        combine(sources, destination, cuts[c + 1] - cuts[c], reduction);
      }
      return result;
    };
    const Bytes whole = combined({0, kCount});
    EXPECT_EQ(combined({0, 1, 17, 64, 500, kCount}), whole);
    EXPECT_EQ(combined({0, 333, 999, kCount}), whole);
  }
}

// A sum of many small values keeps what rounding after each step would lose.
TEST_P(Combine, SixteenBitTypesAreAddedInFloat32) {
  std::vector<Bfloat16> one = {to_bfloat16(256)};
  std::vector<Bfloat16> small = {to_bfloat16(0.5F)};
  const std::vector<const void*> sources = {one.data(), small.data(), small.data(), small.data(),
                                            small.data()};
  const std::vector<Destination> destination = {{one.data()}};
  combine(sources, destination, 1, {DType::kBfloat16});
  EXPECT_EQ(to_float(one[0]), 258);
}

// Every value of the 16-bit types comes through as it is.
TEST_P(Combine, SixteenBitValuesSurvive) {
  for (const DType dtype : {DType::kFloat16, DType::kBfloat16}) {
    std::vector<std::uint16_t> all(0x10000);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
    std::vector<std::uint16_t> result(all.size());
    const std::vector<const void*> sources = {all.data()};
    const std::vector<Destination> destination = {{result.data()}};
    combine(sources, destination, all.size(), {dtype});
    for (std::size_t i = 0; i < all.size(); ++i) {
      const float value =
          dtype == DType::kFloat16 ? to_float(Float16{all[i]}) : to_float(Bfloat16{all[i]});
      if (std::isnan(value)) continue;
      ASSERT_EQ(result[i], all[i]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, Combine, testing::ValuesIn(targets()), target_name);

}  // namespace
}  // namespace kolo
