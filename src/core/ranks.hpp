#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace kolo {

// Returns the index of `rank` among the ranks, or their number if it is not there.
inline int index_of(const std::vector<int>& ranks, int rank) {
  return static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

// Returns the ranks whose flag is `wanted`.
inline std::vector<int> ranks_where(const std::vector<bool>& flags, bool wanted) {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < flags.size(); ++rank) {
    if (flags[rank] == wanted) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

// Returns "rank 3", "ranks 0, 1, 2" or, for many, "ranks 0-5, 7".
std::string rank_list(const std::vector<int>& ranks);

}  // namespace kolo
