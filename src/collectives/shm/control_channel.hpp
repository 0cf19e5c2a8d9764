// The control plane's channel for a group whose ranks share memory. Each rank has a ring of cache
// lines in its own segment, which it alone writes. A short message and its stamp fit one line, so
// that they travel together.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/control_channel.hpp"
#include "collectives/shm/node.hpp"

namespace kolo::shm {

// For a group of at most ControlRing::kMostRanks; the arguments are those of Board.
std::unique_ptr<ControlChannel> make_control_channel(std::shared_ptr<Node> node,
                                                     const std::vector<int>& local_ranks, int slot,
                                                     std::uint64_t generation);

}  // namespace kolo::shm
