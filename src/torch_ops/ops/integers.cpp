#include "torch_ops/ops/integers.hpp"

#include <ATen/ATen.h>

#include <cstdint>
#include <limits>

namespace kolo {
namespace {

struct Range {
  std::int64_t least;
  std::int64_t most;
};

template <typename T>
Range range_of() {
  return {std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
}

Range range_of(at::ScalarType dtype) {
  switch (dtype) {
    case at::kByte:
      return range_of<std::uint8_t>();
    case at::kChar:
      return range_of<std::int8_t>();
    case at::kShort:
      return range_of<std::int16_t>();
    case at::kInt:
      return range_of<std::int32_t>();
    default:
      return range_of<std::int64_t>();
  }
}

// Scales without leaving the range of int64: converting larger numbers is undefined, and int64's
// maximum is not a float64.
at::Tensor scaled_int64(const at::Tensor& values, double factor) {
  const double beyond = 0x1p63;
  const at::Tensor scaled = values.to(at::kDouble).mul_(factor);
  at::Tensor whole = scaled.clamp(-beyond, 0x1.fffffffffffffp62).to(at::kLong);
  return whole.masked_fill_(scaled.ge(beyond), std::numeric_limits<std::int64_t>::max());
}

at::Tensor within_range(const at::Tensor& values, at::ScalarType dtype) {
  const Range range = range_of(dtype);
  return dtype == at::kLong ? values : values.clamp(range.least, range.most).to(dtype);
}

}  // namespace

bool is_integer(at::ScalarType dtype) {
  return at::isIntegralType(dtype, /*includeBool=*/false);
}

at::Tensor scaled_integers(const at::Tensor& values, double factor) {
  if (factor == 1.0) return values;
  return within_range(scaled_int64(values, factor), values.scalar_type());
}

at::Tensor IntegerAverage::to_numbers(const at::Tensor& values) const {
  const at::Tensor wide = prescale == 1.0 ? values.to(at::kLong) : scaled_int64(values, prescale);
  return at::stack({wide.div(ranks, "floor"), wide.remainder(ranks)}, -1);
}

at::Tensor IntegerAverage::from_sums(const at::Tensor& sums, at::ScalarType dtype) const {
  const at::Tensor remainders = sums.select(-1, 1);
  at::Tensor averages = sums.select(-1, 0) + remainders.div(ranks, "floor");
  // These averages are rounded down, but negative ones must be rounded up, towards zero.
  averages += averages.lt(0).logical_and_(remainders.remainder(ranks).ne(0));
  return within_range(postscale == 1.0 ? averages : scaled_int64(averages, postscale), dtype);
}

}  // namespace kolo
