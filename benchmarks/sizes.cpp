#include "benchmarks/sizes.hpp"

#include <algorithm>

namespace kolo::bench {

std::vector<std::int64_t> sizes_between(std::int64_t min_bytes, std::int64_t max_bytes) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t bytes = min_bytes; bytes <= max_bytes; bytes *= 4) sizes.push_back(bytes);
  return sizes;
}

int default_samples(std::int64_t bytes) {
  constexpr std::int64_t kBudgetBytes = std::int64_t{1} << 30;
  return static_cast<int>(
      std::clamp<std::int64_t>(kBudgetBytes / std::max<std::int64_t>(bytes, 1), 20, 500));
}

}  // namespace kolo::bench
