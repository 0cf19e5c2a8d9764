// The arena: memory that the ranks of a node share, in which CPU tensors are born. See
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

// Not collective; any thread, at any time.
ArenaStatistics arena_statistics();

// Gives memory that is free back to the system, and returns how many bytes. Not collective; any
// thread, at any time. What is in use stays; the next large tensors cost page faults again.
std::size_t trim_arena();

// Whether the tensor lies in the arena, so that it is reduced where it is. Not collective; any
// thread. False for what is small (below 32 KiB), was made before init(), or is no CPU tensor.
bool is_shared(const at::Tensor& tensor);

}  // namespace kolo
