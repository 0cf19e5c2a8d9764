// Gives process sets their slots: the share of the tags and of the node's memory that a set uses.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace kolo {

// Every rank takes and gives back slots in the order of the world's decisions, so all ranks choose
// the same slots, whatever each of them has finished by then. When a slot is taken again, another
// rank may still read the memory of its previous set. So the slot that was given back first is
// taken first, and a few slots always stay unused.
class SlotPool {
 public:
  struct Slot {
    int number = 0;
    std::uint64_t generation = 0;  // how often the slot was taken before
  };

  // Slots 1 to slots - 1. (The world has slot 0 for good.)
  explicit SlotPool(int slots) : generations_(static_cast<std::size_t>(slots), 0) {
    for (int slot = 1; slot < slots; ++slot) free_.push_back(slot);
    resting_ = std::min<std::size_t>(kMostResting, free_.size() / 4);
  }

  // Returns nothing if all slots are in use, or must stay unused.
  std::optional<Slot> take() {
    if (free_.size() <= resting_) return std::nullopt;
    const int number = free_.front();
    free_.pop_front();
    return Slot{number, generations_[static_cast<std::size_t>(number)]++};
  }
  void give_back(int slot) { free_.push_back(slot); }

 private:
  static constexpr std::size_t kMostResting = 16;

  std::vector<std::uint64_t> generations_;  // by slot
  std::deque<int> free_;
  std::size_t resting_ = 0;
};

}  // namespace kolo
