// Places LibTorch's CPU tensors in memory that the ranks of a node share.
#pragma once

#include <cstddef>
#include <memory>

#include "collectives/shm/arena.hpp"
#include "core/status.hpp"

namespace kolo {

// Returns this process's arena. Creates it with up to `capacity` bytes if it does not exist yet.
// Tensors may outlive a session, so the arena lives as long as the process.
Status process_arena(std::size_t capacity, std::shared_ptr<shm::Arena>& arena);

// Returns the arena, or null if it was not created.
shm::Arena* existing_arena();

// Make LibTorch allocate CPU tensors of at least shm::Arena::kSmallest bytes in the process's arena
// as long as it has room, or again with LibTorch's previous allocator. Existing tensors stay where
// they are, and are freed by the allocator that they came from.
void put_tensors_into_arena();
void put_tensors_elsewhere();

}  // namespace kolo
