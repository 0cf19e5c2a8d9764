// Collectives on a CUDA device, by NCCL.
#pragma once

#include <memory>

#include "collectives/device.hpp"
#include "collectives/nccl/nccl.hpp"
#include "collectives/nccl/streams.hpp"

namespace kolo::nccl {

std::unique_ptr<DeviceBackend> make_backend(std::shared_ptr<Streams> streams, Backend& host,
                                            const Options& options);

}  // namespace kolo::nccl
