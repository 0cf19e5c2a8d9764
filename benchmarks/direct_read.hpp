// What an allreduce of private memory takes whose ranks read each other's memory through the kernel
// (process_vm_readv) instead of a staging buffer: each rank reads its share of the others', adds,
// and reads their sums. float32, Sum.
#pragma once

#include <cstddef>
#include <memory>

#include "benchmarks/group.hpp"
#include "benchmarks/harness.hpp"

namespace kolo::bench {

// Collective, of two ranks and more. Null where the ranks are not all on one node, or may not read
// each other's memory (a container's or Yama's rules).
std::unique_ptr<Contender> make_direct_read(Group& group, std::size_t elements);

}  // namespace kolo::bench
