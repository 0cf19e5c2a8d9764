// How far another rank's core is from this one's.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>

#include "core/clock.hpp"

namespace kolo::shm {

// Told by how long it takes to fetch a cache line that the other rank has just written: some 60 ns
// within a cache that both share, 160 between caches, with the clock's own 20. Kernels move threads
// between cores, and hypervisors move cores: what was seen a while ago counts no more.
class Distance {
 public:
  void note_fetch(Clock::time_point begin, Clock::time_point end) {
    if (begin - newest_ > kValid) known_ = 0;
    fetches_[known_++ % fetches_.size()] = end - begin;
    newest_ = end;
  }

  bool is_known(Clock::time_point now) const {
    return known_ >= fetches_.size() && now - newest_ <= kValid;
  }

  // False until it is known. One fetch may be slow since memory is busy, or quick since the line
  // had come by itself: the middle one of the last three counts.
  bool is_near(Clock::time_point now) const {
    const auto [a, b, c] = fetches_;
    return is_known(now) && std::max(std::min(a, b), std::min(std::max(a, b), c)) <= kNear;
  }

 private:
  static constexpr Clock::duration kNear = std::chrono::nanoseconds(110);
  static constexpr Clock::duration kValid = std::chrono::milliseconds(10);

  std::array<Clock::duration, 3> fetches_ = {};
  std::size_t known_ = 0;
  Clock::time_point newest_;
};

}  // namespace kolo::shm
