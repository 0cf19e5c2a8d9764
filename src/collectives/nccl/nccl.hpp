// This process' CUDA device, whose collectives NCCL carries out. No CUDA or NCCL header is needed
// to include this.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <set>

#include "collectives/device.hpp"
#include "core/operations.hpp"

namespace kolo::nccl {

struct Options {
  // Whether several ranks may use the same device.
  bool may_share = false;
  int rank = 0;  // in the world
  // Operations that the host carries out in NCCL's place, over shared memory and MPI. Equal on all
  // ranks.
  std::set<OpKind> over_host;
  // Allreduce goes in stages: NCCL within each node, the host between nodes. Equal on all ranks.
  bool hierarchical_allreduce = false;
  // Called when the device has no memory left: LibTorch's cache is emptied. May be empty.
  std::function<void()> free_kept;
  // Bytes that go through pinned memory at a time and, in an allreduce in stages, bytes of each
  // slice. Large enough for the bus, small enough to begin early.
  std::size_t piece_bytes = std::size_t{4} << 20;
};

// Returns ok if kolo was built with CUDA, otherwise an error with the remedy.
Status available();

// Whether CUDA finds a device that this process sees.
bool any_device();

// Makes the CUDA device with this index. Any thread may call it, once per process.
Status make_device(int index, const Options& options, std::shared_ptr<Device>& device);

}  // namespace kolo::nccl
