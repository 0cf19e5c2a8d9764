// A part of a tensor: in each dimension from `start` on, `extent` long. What a rank has of a
// sharded tensor. Pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/element_type.hpp"

namespace kolo::checkpoint {

using kolo::elements_of;  // of a shape, beside that of a box

struct Box {
  std::vector<std::int64_t> start;
  std::vector<std::int64_t> extent;
};

Box whole(const std::vector<std::int64_t>& shape);
bool is_within(const Box& box, const std::vector<std::int64_t>& shape);  // same rank, no negatives
std::uint64_t elements_of(const Box& box);
bool overlap(const Box& left, const Box& right);  // have an element in common

// A row of elements that lie one after the other in the tensor (row-major) and in its part.
struct Run {
  std::uint64_t in_tensor = 0;  // index of its first element there
  std::uint64_t in_box = 0;
  std::uint64_t elements = 0;
};

// Calls `take` for the fewest runs that make up the box, in ascending order. The box is within the
// shape.
void for_each_run(const std::vector<std::int64_t>& shape, const Box& box,
                  const std::function<void(const Run&)>& take);

}  // namespace kolo::checkpoint
