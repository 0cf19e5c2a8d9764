// Determines which samples a rank sees in an epoch. Pure functions with the same results on every
// platform and standard library. kolo/data/sampler.h makes a LibTorch sampler of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kolo::data {

struct ShareOptions {
  std::size_t num_replicas = 1;  // at least 1
  std::size_t rank = 0;          // below num_replicas
  bool drop_last = false;
};

// Returns the number of samples per rank, the same on all ranks: the quotient rounded up, or down
// with drop_last.
std::size_t share_size(std::size_t order_size, std::size_t num_replicas, bool drop_last);

// Returns the numbers 0 to size - 1 in an order that depends only on seed and epoch; every order is
// equally likely. Fisher-Yates shuffle by Durstenfeld (Comm. ACM 7, 1964, algorithm 235).
std::vector<std::size_t> permutation(std::size_t size, std::uint64_t seed, std::uint64_t epoch);

// Returns the samples of options.rank: every num_replicas-th of the epoch's order, from index
// `rank` on. So the first b samples of all ranks together are the first b * num_replicas of the
// order, and a step over all ranks sees what one process would see with a batch num_replicas times
// as large. If the order is too short for equal shares, it is repeated from its beginning, as often
// as needed; with drop_last, its remainder is left out instead.
std::vector<std::size_t> share_of(const std::vector<std::size_t>& order,
                                  const ShareOptions& options);

}  // namespace kolo::data
