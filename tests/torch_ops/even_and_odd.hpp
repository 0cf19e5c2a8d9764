// Two process sets that cover all ranks and share none.
#pragma once

#include <kolo/kolo.h>

#include <vector>

namespace kolo::testing_support {

// Collective. The set of the even and, unless there is one rank alone, that of the odd ranks; in
// falling order, so that positions are not ranks. This rank is in sets[rank() % sets.size()].
inline std::vector<ProcessSet> even_and_odd() {
  std::vector<ProcessSet> sets;
  for (int first = 0; first < 2 && first < size(); ++first) {
    std::vector<int> members;
    for (int r = first; r < size(); r += 2) members.insert(members.begin(), r);
    sets.push_back(add_process_set(members));
  }
  return sets;
}

inline const ProcessSet& own(const std::vector<ProcessSet>& sets) {
  return sets[static_cast<std::size_t>(rank()) % sets.size()];
}

}  // namespace kolo::testing_support
