// Collectives on a CUDA device, by NCCL.
#pragma once

#include <memory>

#include "collectives/device.hpp"
#include "collectives/nccl/communicator.hpp"
#include "collectives/nccl/nccl.hpp"
#include "collectives/nccl/streams.hpp"

namespace kolo::nccl {

// `communicators`: the device's.
std::unique_ptr<DeviceBackend> make_backend(std::shared_ptr<Streams> streams,
                                            std::shared_ptr<Communicators> communicators,
                                            Backend& host, const Options& options);

}  // namespace kolo::nccl
