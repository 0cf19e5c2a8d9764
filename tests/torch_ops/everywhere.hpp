// For errors that every rank must see.
#pragma once

#include <string>
#include <vector>

#include "fixture.hpp"

namespace kolo::testing_support {

// "rank 1", "ranks 0, 2": of up to 4 ranks, those that are even or odd, as errors name them.
inline std::string names_of_ranks(bool odd) {
  std::vector<int> ranks;
  for (int r = odd ? 1 : 0; r < size(); r += 2) ranks.push_back(r);
  if (ranks.size() == 1) return "rank " + std::to_string(ranks[0]);
  return "ranks " + std::to_string(ranks[0]) + ", " + std::to_string(ranks[1]);
}

// The message of the Error that the action must throw on every rank, which must be the same one.
template <typename Error, typename Action>
std::string message_everywhere(const Action& action) {
  const std::string mine = message_of<Error>(action);
  for (const std::string& other : allgather_object(mine)) EXPECT_EQ(other, mine);
  return mine;
}

}  // namespace kolo::testing_support
