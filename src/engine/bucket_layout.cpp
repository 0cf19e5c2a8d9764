#include "engine/bucket_layout.hpp"

#include "coordinator/plan.hpp"

namespace kolo {

BucketLayout layout_bucket(const std::vector<std::size_t>& tensor_bytes) {
  BucketLayout layout;
  for (const std::size_t bytes : tensor_bytes) {
    layout.offsets.push_back(layout.bytes);
    layout.bytes += bytes_in_bucket(bytes);
  }
  return layout;
}

}  // namespace kolo
