#include "coordinator/attendance.hpp"

#include <algorithm>

#include "core/ranks.hpp"

namespace kolo {

std::vector<int> Attendance::in_world(std::vector<int> ranks) const {
  for (int& rank : ranks) rank = in_world(rank);
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

std::string Attendance::in_words(std::vector<int> ranks) const {
  return rank_list(in_world(std::move(ranks)));
}

void Attendance::join(int rank) {
  joined_[static_cast<std::size_t>(rank)] = true;
  ++joined_count_;
}

void Attendance::end_join() {
  joined_.assign(joined_.size(), false);
  joined_count_ = 0;
}

void Attendance::leave(int rank) {
  left_[static_cast<std::size_t>(rank)] = true;
  left_in_order_.push_back(rank);
}

}  // namespace kolo
