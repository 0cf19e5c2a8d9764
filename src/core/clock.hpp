// The one clock that deadlines and timers use.
#pragma once

#include <chrono>
#include <sstream>
#include <string>

namespace kolo {

using Clock = std::chrono::steady_clock;

inline Clock::duration seconds(double value) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(value));
}

inline double to_seconds(Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// "0.5 s", for messages.
inline std::string to_text(Clock::duration duration) {
  std::ostringstream text;
  text << to_seconds(duration) << " s";
  return text.str();
}

}  // namespace kolo
