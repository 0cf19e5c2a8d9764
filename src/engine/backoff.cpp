#include "engine/backoff.hpp"

#include <sched.h>

namespace kolo {
namespace {

using std::chrono::microseconds;

// Time of yielding, on a core of our own, before the first sleep. It is a little longer than a
// usual message takes, so that only late peers cost a sleep (50 us and a wake-up).
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
