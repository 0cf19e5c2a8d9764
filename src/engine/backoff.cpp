#include "engine/backoff.hpp"

#include <sched.h>

namespace kolo {
namespace {

using std::chrono::microseconds;

// How long to yield, in a core of our own, before the first sleep: a bit longer than a usual
// message takes, so that sleeping (50 us and a wake-up) is for peers that are really late.
constexpr Clock::duration kYield = std::chrono::milliseconds(1);
constexpr Clock::duration kShortSleep = microseconds(50);
constexpr Clock::duration kLongSleep = microseconds(250);
constexpr Clock::duration kPatience = std::chrono::milliseconds(10);

void cpu_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

std::optional<Clock::duration> Backoff::pause(bool somebody_waits) {
  const Clock::time_point now = Clock::now();
  if (!idle_since_) idle_since_ = now;
  const Clock::duration idle = now - *idle_since_;
  const bool own_core =
      has_core() || (somebody_waits && options_.cores_per_rank >= options_.computing_threads);
  if (own_core && idle < options_.spin) {
    cpu_pause();
    return std::nullopt;
  }
  if ((own_core || somebody_waits) && idle < options_.spin + kYield) {
    sched_yield();
    return std::nullopt;
  }
  return idle < kPatience ? kShortSleep : kLongSleep;
}

}  // namespace kolo
