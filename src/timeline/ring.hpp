// A bounded queue of many writers and one reader, without locks (D. Vyukov, Bounded MPMC queue,
// 1024cores.net). A writer that finds it full drops its item, and counts that.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>

namespace kolo::timeline {

template <typename Item>
class Ring {
 public:
  // capacity: a power of two.
  explicit Ring(std::size_t capacity) : mask_(capacity - 1), cells_(new Cell[capacity]) {
    for (std::size_t i = 0; i < capacity; ++i) cells_[i].stamp.store(i, std::memory_order_relaxed);
  }

  std::size_t capacity() const { return mask_ + 1; }

  // Returns how many items have been put in so far, this one included, or nothing if there was no
  // room. Any thread may call it.
  std::optional<std::uint64_t> push(const Item& item) {
    std::uint64_t at = tail_.load(std::memory_order_relaxed);
    while (true) {
      Cell& cell = cells_[at & mask_];
      const std::uint64_t stamp = cell.stamp.load(std::memory_order_acquire);
      if (stamp == at) {
        if (!tail_.compare_exchange_weak(at, at + 1, std::memory_order_relaxed)) continue;
        cell.item = item;
        cell.stamp.store(at + 1, std::memory_order_release);
        return at + 1;
      }
      if (stamp < at) {  // unchanged for a round: not read yet
        dropped_.fetch_add(1, std::memory_order_relaxed);
        return std::nullopt;
      }
      at = tail_.load(std::memory_order_relaxed);
    }
  }

  // Returns false if there is no item. Only one thread may call it.
  bool pop(Item& item) {
    Cell& cell = cells_[head_ & mask_];
    if (cell.stamp.load(std::memory_order_acquire) != head_ + 1) return false;
    item = cell.item;
    cell.stamp.store(++head_ + mask_, std::memory_order_release);
    return true;
  }

  // Returns the number of items dropped since the last call.
  std::uint64_t take_dropped() { return dropped_.exchange(0, std::memory_order_relaxed); }

 private:
  struct Cell {
    // The position that may be written here next, or one more once it is written.
    std::atomic<std::uint64_t> stamp;
    Item item;
  };
  static constexpr std::size_t kCacheLine = 64;

  // Used by the writers.
  alignas(kCacheLine) std::atomic<std::uint64_t> tail_{0};
  std::atomic<std::uint64_t> dropped_{0};
  const std::size_t mask_;
  const std::unique_ptr<Cell[]> cells_;
  // Used by the reader.
  alignas(kCacheLine) std::uint64_t head_ = 0;
};

}  // namespace kolo::timeline
