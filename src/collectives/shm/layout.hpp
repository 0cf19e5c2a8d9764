// The start of each rank's segment: one slot for each group the rank may be in. Slot 0 also holds
// the rank's doorbell. Slots that no group uses are never touched, and cost no memory.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "collectives/backend.hpp"
#include "collectives/shm/doorbell.hpp"

namespace kolo::shm {

// A rank's line on a channel of a Board.
struct alignas(64) Line {
  std::atomic<std::uint64_t> posted;
  // Numbers of pieces, with the low half of the collective's stamp in the upper half.
  std::atomic<std::uint64_t> ready;    // exposed
  std::atomic<std::uint64_t> reduced;  // of which this rank's share is reduced
  std::atomic<std::uint64_t> copied;   // of which this rank has read what it needs
  // Written before `posted`: the exposed region. It lies at this offset of the rank's segment or,
  // if it is private, comes in pieces through a staging buffer there.
  std::uint64_t bytes;
  std::uint64_t offset;
  std::uint64_t is_private;
  std::int64_t posted_at;  // ticks of the clock that a node's processes share
};

constexpr std::size_t kBoardChannels = Backend::kWindow;
constexpr std::size_t kBoardRoom = 4096;  // bytes for small values, per rank and channel
constexpr std::size_t kBoardBytes = kBoardChannels * (sizeof(Line) + kBoardRoom);

// The lines that a rank writes on the control channel, and how many of the others' lines it has
// read.
struct ControlRing {
  static constexpr std::size_t kLines = 1024;
  static constexpr std::size_t kMostRanks = 1024;

  struct alignas(64) Line {
    static constexpr std::size_t kRoom = 56;
    // The number of the line and of its bytes that are used: see stamp_of(). Written last.
    std::atomic<std::uint64_t> stamp;
    std::array<std::byte, kRoom> bytes;
  };

  std::array<Line, kLines> lines;
  // Number of lines that this rank has read of another rank's ring, with the generation; by rank of
  // the group. Rank 0 reads all other rings, the others only that of rank 0.
  std::array<std::atomic<std::uint64_t>, kMostRanks> read;
};

constexpr std::size_t kSlots = 1024;
constexpr std::size_t kSlotBytes = kBoardBytes + sizeof(ControlRing) + 4096;
constexpr std::size_t kControlBytes = kSlots * kSlotBytes;
static_assert(sizeof(Doorbell::Lines) <= 4096);

// Offsets in a segment.
constexpr std::size_t board_of_slot(int slot) {
  return static_cast<std::size_t>(slot) * kSlotBytes;
}
constexpr std::size_t control_ring_of_slot(int slot) {
  return board_of_slot(slot) + kBoardBytes;
}
constexpr std::size_t kDoorbell = control_ring_of_slot(0) + sizeof(ControlRing);

}  // namespace kolo::shm
