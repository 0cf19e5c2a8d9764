// Operations that some ranks have submitted and others have not.
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

// Text that names the missing ranks, the operations and the times. Takes at least one stall.
std::string describe(const std::vector<Stall>& stalls, Clock::time_point now);

// Decides when stalls are reported: a new one at once, and each again when it has lasted twice as
// long. Whenever one is due, all of them are reported.
class ToldStalls {
 public:
  bool is_time(const std::vector<Stall>& stalls, Clock::time_point now) const;
  // Forgets the stalls that are over.
  void told(const std::vector<Stall>& stalls, Clock::time_point now);

 private:
  std::map<std::tuple<OpKind, std::string, Clock::time_point>, Clock::duration>
      ages_;  // when reported
};

}  // namespace kolo
