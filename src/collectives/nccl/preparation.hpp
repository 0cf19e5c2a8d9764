// How the ranks of a group find each other for NCCL.
#pragma once

#include <memory>

#include "collectives/backend.hpp"
#include "collectives/nccl/communicator.hpp"

namespace kolo::nccl {

// What a rank has, for the others.
struct DeviceCard {
  int device = 0;
  int rank = 0;            // in the world
  bool may_share = false;  // with another rank
};

// Over `host` the ranks tell each other which device each of them has, which must be different ones
// unless they may share, and rank 0 what NCCL needs to meet; then the communicator begins, and is
// waited for. Both outlive the work.
std::unique_ptr<Work> make_preparation(Backend& host, Turn turn, Communicator& communicator,
                                       const DeviceCard& device);

// Likewise of two ranks of the group alone, for a communicator in which the lower one is rank 0.
// The higher one sees whether they have different devices.
std::unique_ptr<Work> make_pair_preparation(Backend& host, Turn turn, Communicator& communicator,
                                            const DeviceCard& device, int lower, int higher);

}  // namespace kolo::nccl
