#include "benchmarks/seen.hpp"

#include <ATen/ATen.h>

#include <cmath>
#include <cstddef>

namespace kolo::bench {

void Seen::add(const at::Tensor& data, const at::Tensor& target) {
  count += data.size(0);
  labels += target.sum().item<std::int64_t>();
  const at::Tensor bytes = data.flatten(1).select(1, 0).to(at::kDouble);
  first += bytes.sum().item<double>();
  paired += bytes.mul(target).sum().item<double>();
}

std::string Seen::check(const SampleForm& form, double scale) const {
  std::int64_t all_labels = 0;
  double all_first = 0;
  double all_paired = 0;
  for (std::size_t i = 0; i < form.count; ++i) {
    all_labels += label_of(i);
    all_first += scale * sample_byte(i, 0);
    all_paired += scale * sample_byte(i, 0) * label_of(i);
  }
  // Bytes divided by 255 were rounded to float32.
  const auto is_equal = [](double left, double right) {
    return std::abs(left - right) <= 1e-6 * right;
  };
  const bool is_right = count == static_cast<std::int64_t>(form.count) && labels == all_labels &&
                        is_equal(first, all_first) && is_equal(paired, all_paired);
  return is_right ? "" : std::to_string(count) + " samples were loaded, or other ones";
}

}  // namespace kolo::bench
