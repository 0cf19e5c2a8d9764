#pragma once

#include <algorithm>
#include <vector>

namespace kolo {

// Where `rank` stands among the ranks; their number if it does not.
inline int index_of(const std::vector<int>& ranks, int rank) {
  return static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

}  // namespace kolo
