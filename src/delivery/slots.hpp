// Shared memory in which a loader hands batches to a training rank of its machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/shm/segment.hpp"
#include "core/status.hpp"
#include "core/thread_annotations.hpp"

namespace kolo::delivery {

// The slots of one connection, numbered from 1. A slot belongs to a batch from take() until the
// rank has sent its release; then the next batch reuses its memory. Any thread may call.
class Slots {
 public:
  struct Taken {
    std::uint32_t number = 0;
    std::span<std::byte> memory;
    int descriptor = -1;  // of new memory, which the rank does not know yet
  };
  // Takes a slot of `bytes` or more.
  Status take(std::size_t bytes, Taken& taken) KOLO_EXCLUDES(mutex_);
  // The rank has this descriptor of new memory now; it is not needed any more.
  void sent(std::uint32_t number, int descriptor) KOLO_EXCLUDES(mutex_);
  // Ignores numbers that are not taken.
  void release(std::uint32_t number) KOLO_EXCLUDES(mutex_);

 private:
  struct Slot {
    shm::Segment memory;
    bool is_taken = false;
  };

  Mutex mutex_;
  std::vector<Slot> slots_ KOLO_GUARDED_BY(mutex_);
};

}  // namespace kolo::delivery
