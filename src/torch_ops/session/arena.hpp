// LibTorch's CPU tensors in memory that the ranks of a node share.
#pragma once

#include <cstddef>
#include <memory>

#include "collectives/shm/arena.hpp"
#include "core/status.hpp"

namespace kolo {

// This process's arena, of at most `capacity` bytes if it is not there yet: tensors may outlive any
// session, so there is one for the life of the process.
Status process_arena(std::size_t capacity, std::shared_ptr<shm::Arena>& arena);

// The arena if it was made.
shm::Arena* existing_arena();

// From now on CPU tensors of shm::Arena::kSmallest bytes and more are allocated in the process's
// arena, as far as it has room; and again by the allocator that LibTorch had before. Tensors that
// are there stay where they are and are freed as they were allocated.
void put_tensors_into_arena();
void put_tensors_elsewhere();

}  // namespace kolo
