// The arena: memory that the ranks of a node share, from which CPU tensors are allocated. See
// docs/memory.md.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>

namespace kolo {

// Statistics of this process's arena. All are zero without an arena: before the first init(), with
// one rank on the node, or with KOLO_SHARED_MEMORY=0.
struct ArenaStatistics {
  std::size_t capacity = 0;     // limit in bytes (KOLO_ARENA_BYTES)
  std::size_t allocated = 0;    // bytes in use by tensors and kolo's buffers, rounded up to blocks
  std::size_t peak = 0;         // the largest `allocated` so far, with the caches of threads
  std::size_t kept = 0;         // free bytes that are kept for later tensors
  std::size_t allocations = 0;  // since the arena was made
  std::size_t refusals = 0;     // allocations outside the arena, because it was full
};

// Returns the statistics. Not collective; any thread, at any time.
ArenaStatistics arena_statistics();

// Gives free memory of the arena back to the system, and returns the number of bytes. Does not
// affect memory in use. The next large tensors cause page faults again. Not collective; any thread,
// at any time.
std::size_t trim_arena();

// Whether the tensor lies in the arena, so that it is reduced in place. Not collective; any thread.
// False for tensors below 32 KiB, for those made before init(), and for CUDA tensors.
bool is_shared(const at::Tensor& tensor);

}  // namespace kolo
