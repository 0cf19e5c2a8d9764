// What some ranks have submitted and others have not.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "core/clock.hpp"
#include "core/operations.hpp"
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

// When stalls are told: each as soon as it is one, whatever else lasts, and again whenever it has
// lasted twice as long. Whenever one is told all are.
class ToldStalls {
 public:
  bool is_time(const std::vector<Stall>& stalls, Clock::time_point now) const;
  // Those that are not there any more are forgotten.
  void told(const std::vector<Stall>& stalls, Clock::time_point now);

 private:
  std::map<std::tuple<OpKind, std::string, Clock::time_point>, Clock::duration> ages_;  // when told
};

}  // namespace kolo
