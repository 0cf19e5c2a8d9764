// What lies at the start of each rank's segment: a slot for each group that the rank may be in. The
// rank's doorbell lies in that of the group of all.
// What no group uses is never touched, and costs no memory.
#pragma once

#include <cstddef>

#include "collectives/shm/board.hpp"
#include "collectives/shm/control_channel.hpp"
#include "collectives/shm/doorbell.hpp"

namespace kolo::shm {

constexpr std::size_t kSlots = 1024;
constexpr std::size_t kSlotBytes = Board::kBytes + sizeof(ControlRing) + 4096;
constexpr std::size_t kControlBytes = kSlots * kSlotBytes;
static_assert(sizeof(Doorbell::Lines) <= 4096);

// Offsets in a segment.
constexpr std::size_t board_of_slot(int slot) {
  return static_cast<std::size_t>(slot) * kSlotBytes;
}
constexpr std::size_t control_ring_of_slot(int slot) {
  return board_of_slot(slot) + Board::kBytes;
}
constexpr std::size_t kDoorbell = control_ring_of_slot(0) + sizeof(ControlRing);

}  // namespace kolo::shm
