// Collectives on a CUDA device, by NCCL.
#pragma once

#include <memory>

#include "collectives/device.hpp"
#include "collectives/nccl/streams.hpp"

namespace kolo::nccl {

std::unique_ptr<DeviceBackend> make_backend(std::shared_ptr<Streams> streams, Backend& host,
                                            bool may_share);

}  // namespace kolo::nccl
