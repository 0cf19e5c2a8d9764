// What some ranks have submitted and others have not.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/clock.hpp"
#include "core/types.hpp"

namespace kolo {

struct Stall {
  std::string name;
  OpKind kind = OpKind::kAllreduce;
  std::size_t more = 0;      // tensors that travel with it
  Clock::time_point since;   // the first rank came
  std::vector<int> missing;  // ranks of the world
};

// In words: who is waited for, for what, and since when. Takes one stall at least.
std::string describe(const std::vector<Stall>& stalls, Clock::time_point now);

}  // namespace kolo
