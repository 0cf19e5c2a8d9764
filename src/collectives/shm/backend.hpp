// Collectives in memory that the ranks of a group share.
#pragma once

#include <memory>

#include "collectives/backend.hpp"
#include "collectives/shm/node.hpp"

namespace kolo::shm {

// For a group of local ranks of the node, see Board. Operations that are not done in shared memory
// (Adasum, clock readings, alltoalls of very many ranks) go over `messages`.
std::unique_ptr<Backend> make_backend(std::shared_ptr<Node> node,
                                      const std::vector<int>& local_ranks, int slot,
                                      std::uint64_t generation, std::unique_ptr<Backend> messages);

}  // namespace kolo::shm
