#include "data/shard.hpp"

#include <numeric>
#include <random>
#include <utility>

#include "kolo/data/random.h"

namespace kolo::data {
namespace {

// The standard defines std::mt19937_64 and std::seed_seq to the bit, but not std::shuffle and
// std::uniform_int_distribution, so those are not used.
std::mt19937_64 make_generator(std::uint64_t seed, std::uint64_t epoch) {
  // Uses all four words: seed 0 in epoch 1 must differ from seed 1 in epoch 0.
  std::seed_seq words{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32),
                      static_cast<std::uint32_t>(epoch), static_cast<std::uint32_t>(epoch >> 32)};
  return std::mt19937_64(words);
}

}  // namespace

std::size_t share_size(std::size_t order_size, std::size_t num_replicas, bool drop_last) {
  const bool round_up = !drop_last && order_size % num_replicas != 0;
  return order_size / num_replicas + (round_up ? 1 : 0);
}

std::vector<std::size_t> permutation(std::size_t size, std::uint64_t seed, std::uint64_t epoch) {
  std::vector<std::size_t> order(size);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937_64 generator = make_generator(seed, epoch);
  for (std::size_t i = size; i > 1; --i) {
    std::swap(order[i - 1], order[static_cast<std::size_t>(random_below(i, generator))]);
  }
  return order;
}

std::vector<std::size_t> share_of(const std::vector<std::size_t>& order,
                                  const ShareOptions& options) {
  std::vector<std::size_t> share(share_size(order.size(), options.num_replicas, options.drop_last));
  for (std::size_t i = 0; i < share.size(); ++i) {
    share[i] = order[(i * options.num_replicas + options.rank) % order.size()];
  }
  return share;
}

}  // namespace kolo::data
