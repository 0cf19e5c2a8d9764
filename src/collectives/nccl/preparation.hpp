// The works by which the ranks of a group find each other for NCCL.
#pragma once

#include <memory>

#include "collectives/backend.hpp"
#include "collectives/nccl/communicator.hpp"

namespace kolo::nccl {

// A rank's device, as the rank describes it to the others.
struct DeviceCard {
  int device = 0;
  int rank = 0;            // in the world
  bool may_share = false;  // with another rank
};

// Makes the work of a group. Over `host`, the ranks exchange their devices, which must differ
// unless they may share, and rank 0 sends the ID that NCCL needs. Then the communicator begins, and
// the work waits for it. `host` and `communicator` outlive the work.
std::unique_ptr<Work> make_preparation(Backend& host, Turn turn, Communicator& communicator,
                                       const DeviceCard& device);

// Makes the work of two ranks of the group, for a communicator in which the lower one is rank 0.
// The higher one checks that they have different devices.
std::unique_ptr<Work> make_pair_preparation(Backend& host, Turn turn, Communicator& communicator,
                                            const DeviceCard& device, int lower, int higher);

}  // namespace kolo::nccl
