// Which sizes `kolo bench allreduce` measures, and how often.
#pragma once

#include <cstdint>
#include <vector>

namespace kolo::bench {

// min_bytes and each time four times as much, up to max_bytes.
std::vector<std::int64_t> sizes_between(std::int64_t min_bytes, std::int64_t max_bytes);

// As many samples as fit into a second or so, between 20 and 500.
int default_samples(std::int64_t bytes);

}  // namespace kolo::bench
