// Finds out which of two ways is faster here and now, by trying both.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace kolo::shm {

// A way counts as fast as the best of its last three times, so that a disturbed time does not
// decide. A way that has become slow is left after at most three times. A way that has become
// faster is noticed when it is tried again.
class Trial {
 public:
  enum Way : std::size_t { kFirst, kSecond };

  // Returns the way to take next.
  Way next() {
    ++turn_;
    const std::size_t known = times_[kFirst].known + times_[kSecond].known;
    if (known < kBeginning.size()) {
      const Way way = kBeginning[known];
      return times_[way].known < Times::kMost ? way : other(way);
    }
    const Way better = times_[kFirst].best() <= times_[kSecond].best() ? kFirst : kSecond;
    return turn_ % kEvery == 0 ? other(better) : better;
  }

  // Reports how long the way took, in any unit.
  void took(Way way, double time) {
    Times& times = times_[way];
    times.last[times.at++ % Times::kMost] = time;
    times.known = std::min(times.known + 1, Times::kMost);
  }

 private:
  // Uses after which the slower way is tried again, which may take several times as long. A prime:
  // if operations of different sizes take turns, it is not always the same one that tries.
  static constexpr std::uint64_t kEvery = 61;

  struct Times {
    static constexpr std::size_t kMost = 3;
    std::array<double, kMost> last{};
    std::size_t known = 0;
    std::size_t at = 0;
    double best() const { return *std::min_element(last.begin(), last.end()); }
  };

  // The first uses: if two kinds of operations take turns, each one tries both ways.
  static constexpr std::array<Way, 6> kBeginning = {kFirst, kSecond, kSecond,
                                                    kFirst, kFirst,  kSecond};

  static Way other(Way way) { return way == kFirst ? kSecond : kFirst; }

  std::array<Times, 2> times_;
  std::uint64_t turn_ = 0;
};

}  // namespace kolo::shm
