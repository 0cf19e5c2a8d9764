#include "delivery/slots.hpp"

#include <algorithm>
#include <bit>

namespace kolo::delivery {
namespace {

constexpr std::size_t kLeastBytes = 1 << 16;

}  // namespace

Status Slots::take(std::size_t bytes, Taken& taken) {
  const MutexLock lock(mutex_);
  const auto is_better = [&](const Slot& slot, const Slot* best) {
    if (slot.is_taken) return false;
    if (best == nullptr) return true;
    const bool fits = slot.memory.size() >= bytes;
    const bool best_fits = best->memory.size() >= bytes;
    return fits != best_fits ? fits : slot.memory.size() < best->memory.size();
  };
  Slot* best = nullptr;
  for (Slot& slot : slots_) {
    if (is_better(slot, best)) best = &slot;
  }
  if (best == nullptr) best = &slots_.emplace_back();
  const bool is_new = best->memory.size() < std::max<std::size_t>(bytes, 1);
  if (is_new) {
    // Rounds sizes up to powers of two, so that batches of slightly different sizes share a slot.
    shm::Segment memory;
    Status made =
        shm::Segment::create("kolo-batch", std::bit_ceil(std::max(bytes, kLeastBytes)), memory);
    if (!made.is_ok()) return made;
    best->memory = std::move(memory);
  }
  best->is_taken = true;
  taken = {static_cast<std::uint32_t>(best - slots_.data()) + 1, best->memory.bytes(),
           is_new ? best->memory.descriptor() : -1};
  return Status::ok();
}

void Slots::sent(std::uint32_t number, int descriptor) {
  const MutexLock lock(mutex_);
  shm::Segment& memory = slots_.at(number - 1).memory;
  // Meanwhile the rank may have released the slot, and a larger batch may have replaced the memory.
  if (memory.descriptor() == descriptor) memory.close_descriptor();
}

void Slots::release(std::uint32_t number) {
  const MutexLock lock(mutex_);
  if (number >= 1 && number <= slots_.size()) slots_[number - 1].is_taken = false;
}

}  // namespace kolo::delivery
