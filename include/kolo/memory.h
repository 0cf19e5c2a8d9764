// The arena: memory that the ranks of a node share, in which CPU tensors are born. See
// docs/memory.md.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>

namespace kolo {

// Of this process; all zero where there is no arena: before the first init(), with one rank on the
// node, or with KOLO_SHARED_MEMORY=0.
struct ArenaStatistics {
  std::size_t capacity = 0;     // bytes it may hold (KOLO_ARENA_BYTES)
  std::size_t allocated = 0;    // bytes in use by tensors and kolo's buffers, rounded up to blocks
  std::size_t peak = 0;         // the most of that so far, with what threads kept for themselves
  std::size_t kept = 0;         // bytes that are free and whose memory is kept for the next tensors
  std::size_t allocations = 0;  // since the arena was made
  std::size_t refusals = 0;     // of them: went elsewhere, since room or memory was short
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
