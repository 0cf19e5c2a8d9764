#pragma once

#include <cstddef>
#include <vector>

namespace kolo {

// The beginning of each tensor in a bucket's buffer, and the buffer's size.
struct BucketLayout {
  std::vector<std::size_t> offsets;  // bytes
  std::size_t bytes = 0;
};
BucketLayout layout_bucket(const std::vector<std::size_t>& tensor_bytes);

}  // namespace kolo
