// Shared memory through which a loader passes batches to a training rank on its machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/shm/segment.hpp"
#include "core/status.hpp"
#include "core/thread_annotations.hpp"

namespace kolo::delivery {

// The slots of one connection, numbered from 1. A batch owns a slot from take() until the rank has
// sent its release; then another batch reuses the memory. Any thread may call.
class Slots {
 public:
  struct Taken {
    std::uint32_t number = 0;
    std::span<std::byte> memory;
    int descriptor = -1;  // of new memory that the rank does not know yet
  };
  // Takes a slot of at least `bytes`.
  Status take(std::size_t bytes, Taken& taken) KOLO_EXCLUDES(mutex_);
  // Reports that the rank has received the descriptor of new memory, which is then closed.
  void sent(std::uint32_t number, int descriptor) KOLO_EXCLUDES(mutex_);
  // Ignores numbers of slots that do not exist.
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
