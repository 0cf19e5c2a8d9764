#include "checkpoint/box.hpp"

#include <cstddef>

namespace kolo::checkpoint {

Box whole(const std::vector<std::int64_t>& shape) {
  return {std::vector<std::int64_t>(shape.size(), 0), shape};
}

bool is_within(const Box& box, const std::vector<std::int64_t>& shape) {
  if (box.start.size() != shape.size() || box.extent.size() != shape.size()) return false;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (box.start[d] < 0 || box.extent[d] < 0 || box.start[d] > shape[d] ||
        box.extent[d] > shape[d] - box.start[d])
      return false;
  }
  return true;
}

std::uint64_t elements_of(const Box& box) {
  std::uint64_t elements = 1;
  for (const std::int64_t extent : box.extent) elements *= static_cast<std::uint64_t>(extent);
  return elements;
}

bool overlap(const Box& left, const Box& right) {
  for (std::size_t d = 0; d < left.start.size(); ++d) {
    if (left.extent[d] == 0 || right.extent[d] == 0) return false;
    if (left.start[d] >= right.start[d] + right.extent[d]) return false;
    if (right.start[d] >= left.start[d] + left.extent[d]) return false;
  }
  return true;
}

void for_each_run(const std::vector<std::int64_t>& shape, const Box& box,
                  const std::function<void(const Run&)>& take) {
  const std::uint64_t total = elements_of(box);
  if (total == 0) return;
  // The dimensions from `inner` on make up a run. The box covers all of them completely, except
  // perhaps the first.
  std::size_t inner = shape.size();
  Run run{0, 0, 1};
  std::uint64_t stride = 1;  // of dimension `inner`, in elements of the tensor
  while (inner > 0) {
    --inner;
    run.elements *= static_cast<std::uint64_t>(box.extent[inner]);
    if (box.extent[inner] != shape[inner] || inner == 0) break;
    stride *= static_cast<std::uint64_t>(shape[inner]);
  }
  std::vector<std::uint64_t> strides(inner);
  std::uint64_t outer_stride = stride;
  if (!shape.empty()) run.in_tensor = static_cast<std::uint64_t>(box.start[inner]) * stride;
  for (std::size_t d = inner; d-- > 0;) {
    outer_stride *= static_cast<std::uint64_t>(shape[d + 1]);
    strides[d] = outer_stride;
    run.in_tensor += static_cast<std::uint64_t>(box.start[d]) * strides[d];
  }
  std::vector<std::int64_t> at(inner, 0);
  for (;;) {
    take(run);
    run.in_box += run.elements;
    if (run.in_box == total) return;
    for (std::size_t d = inner; d-- > 0;) {
      run.in_tensor += strides[d];
      if (++at[d] < box.extent[d]) break;
      run.in_tensor -= strides[d] * static_cast<std::uint64_t>(box.extent[d]);
      at[d] = 0;
    }
  }
}

}  // namespace kolo::checkpoint
