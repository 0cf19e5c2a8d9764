// Counts a rank's own operations since its start.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/clock.hpp"
#include "core/operations.hpp"

namespace kolo {

// A histogram of durations. The first bound is 1 us; each further one is four times the previous
// one. The last count is for longer durations.
struct TimeCounts {
  static constexpr std::size_t kBounds = 14;  // the last one is 67 s
  static double bound(std::size_t number);    // seconds, inclusive
  static std::size_t place_of(Nanoseconds time);

  std::array<std::uint64_t, kBounds + 1> counts{};
  std::uint64_t sum = 0;  // nanoseconds
};

// All counts at one moment.
struct Measures {
  std::array<std::uint64_t, kOpKindCount> operations{};  // successful ones, counted per tensor
  std::array<std::uint64_t, kOpKindCount> bytes{};       // of those
  std::uint64_t failed = 0;
  std::uint64_t collectives = 0;  // a bucket counts as one
  std::uint64_t buckets = 0;
  std::uint64_t known = 0;      // submissions whose name had a number (cache hits)
  std::uint64_t announced = 0;  // submissions whose name had none (cache misses)
  std::uint64_t stalls = 0;
  std::uint64_t step = 0;
  TimeCounts negotiation;  // of a bucket or a single tensor: from its submission to the decision
  TimeCounts collective;   // likewise, from its start to its end
  TimeCounts wait;         // of the program's threads, for operations
  TimeCounts data_wait;    // likewise, for batches of a DataLoader
};

// Convert to and from numbers in a fixed order, for sending to rank 0.
std::vector<std::uint64_t> to_numbers(const Measures& measures);
bool from_numbers(const std::vector<std::uint64_t>& numbers, Measures& measures);

class Meters {
 public:
  // --- the thread that drives the engine ---
  void ended(OpKind kind, std::uint64_t tensors, std::uint64_t bytes) {
    add(operations_[static_cast<std::size_t>(kind)], tensors);
    add(bytes_[static_cast<std::size_t>(kind)], bytes);
  }
  void failed() { add(failed_, 1); }
  void submitted(bool known) { add(known ? known_ : announced_, 1); }
  void stalled() { add(stalls_, 1); }
  // Counts a collective of a bucket or of a single tensor.
  void ran(bool is_bucket) {
    add(collectives_, 1);
    if (is_bucket) add(buckets_, 1);
  }
  void ran_in(Nanoseconds negotiation, Nanoseconds collective) {
    negotiation_.add(negotiation);
    collective_.add(collective);
  }

  // --- any thread ---
  void waited(Nanoseconds time) { wait_.add(time); }
  void waited_for_data(Nanoseconds time) { data_wait_.add(time); }
  Measures copy() const;

 private:
  using Count = std::atomic<std::uint64_t>;
  struct Times {
    void add(Nanoseconds time) {
      counts[TimeCounts::place_of(time)].fetch_add(1, std::memory_order_relaxed);
      sum.fetch_add(time > 0 ? static_cast<std::uint64_t>(time) : 0, std::memory_order_relaxed);
    }
    TimeCounts copy() const;
    std::array<Count, TimeCounts::kBounds + 1> counts{};
    Count sum{0};
  };
  // Only one thread writes at a time.
  static void add(Count& count, std::uint64_t more) {
    count.store(count.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  }

  std::array<Count, kOpKindCount> operations_{};
  std::array<Count, kOpKindCount> bytes_{};
  Count failed_{0};
  Count collectives_{0};
  Count buckets_{0};
  Count known_{0};
  Count announced_{0};
  Count stalls_{0};
  Times negotiation_;
  Times collective_;
  Times wait_;
  Times data_wait_;
};

}  // namespace kolo
