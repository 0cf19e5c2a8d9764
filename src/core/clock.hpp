// The one clock that deadlines and timers use.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <sstream>
#include <string>

namespace kolo {

using Clock = std::chrono::steady_clock;

// Converts seconds to a duration, limited to a hundred years, so that a time that long from now is
// still one of the clock's. NaN becomes a hundred years.
inline Clock::duration seconds(double value) {
  constexpr double kMost = 100.0 * 365 * 86400;
  const double some = value < kMost ? std::max(value, -kMost) : kMost;
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(some));
}

inline double to_seconds(Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// Since the clock's epoch.
using Nanoseconds = std::int64_t;

inline Nanoseconds nanoseconds(Clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

// Returns the time of day, in nanoseconds since 1970, for people, and to tell one job from the
// next.
inline std::int64_t unix_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// Returns a text such as "0.5 s", for messages.
inline std::string to_text(Clock::duration duration) {
  std::ostringstream text;
  text << to_seconds(duration) << " s";
  return text.str();
}

}  // namespace kolo
