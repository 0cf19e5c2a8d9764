#include "benchmarks/seen.hpp"

#include <ATen/ATen.h>

#include <cmath>
#include <cstddef>

namespace kolo::bench {

void Seen::add(const at::Tensor& data, const at::Tensor& target) {
  count += data.size(0);
  labels += target.sum().item<std::int64_t>();
  first += data.flatten(1).select(1, 0).to(at::kDouble).sum().item<double>();
}

std::string Seen::check(const SampleForm& form, double scale) const {
  std::int64_t all_labels = 0;
  double all_first = 0;
  for (std::size_t i = 0; i < form.count; ++i) {
    all_labels += label_of(i);
    all_first += scale * sample_byte(i, 0);
  }
  const bool is_right = count == static_cast<std::int64_t>(form.count) && labels == all_labels &&
                        std::abs(first - all_first) < 1e-3 * all_first;
  return is_right ? "" : std::to_string(count) + " samples were loaded, or other ones";
}

}  // namespace kolo::bench
