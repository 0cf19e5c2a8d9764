// How the ranks of a group find each other for NCCL.
#pragma once

#include <memory>

#include "collectives/backend.hpp"
#include "collectives/nccl/communicator.hpp"

namespace kolo::nccl {

// Over `host` the ranks tell each other which device each of them has, which must be different ones
// unless `may_share`, and rank 0 what NCCL needs to meet; then the communicator begins, and is
// waited for. Both outlive the work. `ready` is set at the end.
std::unique_ptr<Work> make_preparation(Backend& host, Turn turn, Communicator& communicator,
                                       int device, bool may_share, bool& ready);

}  // namespace kolo::nccl
