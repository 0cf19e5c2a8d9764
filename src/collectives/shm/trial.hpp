// Which of two ways is the quicker one here and now, found out by taking both.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace kolo::shm {

// Each way counts as the quickest of its last three times, so that one that something else
// disturbed does not decide. A way that has become slow is left after three times at the latest;
// one that has become quicker is noticed when its turn comes to be tried again.
class Trial {
 public:
  enum Way : std::size_t { kFirst, kSecond };

  // The way to go next.
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
  // The slower way may take several times as long. A prime: where things of different size take
  // turns, it must not always be the same one that tries.
  static constexpr std::uint64_t kEvery = 61;

  struct Times {
    static constexpr std::size_t kMost = 3;
    std::array<double, kMost> last{};
    std::size_t known = 0;
    std::size_t at = 0;
    double best() const { return *std::min_element(last.begin(), last.end()); }
  };

  // Likewise of two that take turns.
  static constexpr std::array<Way, 6> kBeginning = {kFirst, kSecond, kSecond,
                                                    kFirst, kFirst,  kSecond};

  static Way other(Way way) { return way == kFirst ? kSecond : kFirst; }

  std::array<Times, 2> times_;
  std::uint64_t turn_ = 0;
};

}  // namespace kolo::shm
