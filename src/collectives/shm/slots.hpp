// What lies at the start of each rank's segment: a slot for each group that the rank may be in.
// What no group uses is never touched, and costs no memory.
#pragma once

#include <cstddef>

#include "collectives/shm/board.hpp"
#include "collectives/shm/control_channel.hpp"

namespace kolo::shm {

constexpr std::size_t kSlots = 1024;
constexpr std::size_t kSlotBytes = Board::kBytes + sizeof(ControlRing);
constexpr std::size_t kControlBytes = kSlots * kSlotBytes;

// Offsets in a segment.
constexpr std::size_t board_of_slot(int slot) {
  return static_cast<std::size_t>(slot) * kSlotBytes;
}
constexpr std::size_t control_ring_of_slot(int slot) {
  return board_of_slot(slot) + Board::kBytes;
}

}  // namespace kolo::shm
