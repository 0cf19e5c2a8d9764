// A box is the part of a tensor that a rank has: in each dimension `extent` elements from `start`
// on. Pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/element_type.hpp"

namespace kolo::checkpoint {

using kolo::elements_of;  // the overload for a shape, next to that for a box

struct Box {
  std::vector<std::int64_t> start;
  std::vector<std::int64_t> extent;
};

Box whole(const std::vector<std::int64_t>& shape);
bool is_within(const Box& box, const std::vector<std::int64_t>& shape);  // equal rank, no negatives
std::uint64_t elements_of(const Box& box);
bool overlap(const Box& left, const Box& right);  // whether they share an element

// A run of elements that are contiguous both in the (row-major) tensor and in its box.
struct Run {
  std::uint64_t in_tensor = 0;  // index of its first element there
  std::uint64_t in_box = 0;
  std::uint64_t elements = 0;
};

// Calls `take` for each run of the box, in ascending order, with as few runs as possible. The box
// must lie within the shape.
void for_each_run(const std::vector<std::int64_t>& shape, const Box& box,
                  const std::function<void(const Run&)>& take);

}  // namespace kolo::checkpoint
