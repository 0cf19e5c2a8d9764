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
  // Several ranks may have the same device.
  bool may_share = false;
  int rank = 0;  // in the world
  // What the host carries out in NCCL's place, over shared memory and MPI; of all ranks alike.
  std::set<OpKind> over_host;
  // Allreduce goes in stages: NCCL within each node, the host between nodes; of all ranks alike.
  bool hierarchical_allreduce = false;
  // Where there is no memory on the device: others give back what they only keep. Or empty.
  std::function<void()> free_kept;
  // What goes through pinned memory at a time, and, in stages, for each slice. Large enough for the
  // bus, small enough to begin early.
  std::size_t piece_bytes = std::size_t{4} << 20;
};

// Whether kolo was built for this at all; else why not, and what to do.
Status available();

// Whether CUDA knows a device that this process sees.
bool any_device();

// The CUDA device of that number. Any thread; once a process.
Status make_device(int index, const Options& options, std::shared_ptr<Device>& device);

}  // namespace kolo::nccl
