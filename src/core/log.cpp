#include "core/log.hpp"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <ctime>

namespace kolo::log {
namespace {

// Apart from the session, only the logger outlives init() and shutdown(): it must work before and
// after.
std::atomic<LogLevel> current_level{LogLevel::kWarning};
std::atomic<bool> with_timestamp{false};
std::atomic<int> current_rank{-1};

std::string timestamp() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto millis =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::tm local{};
  localtime_r(&seconds, &local);
  char text[40];
  const std::size_t used = std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
  std::string padded = std::to_string(millis);
  padded.insert(0, 3 - padded.size(), '0');
  return std::string(text, used) + "." + padded + " ";
}

}  // namespace

void configure(LogLevel level, bool timestamp_wanted, int rank) {
  current_level = level;
  with_timestamp = timestamp_wanted;
  current_rank = rank;
}

bool enabled(LogLevel level) {
  return level >= current_level;
}

void write(LogLevel level, const std::string& text) {
  if (!enabled(level) || level == LogLevel::kOff) return;
  static constexpr const char* kNames[] = {"trace", "debug", "info", "warning", "error"};
  std::string line = with_timestamp ? timestamp() : std::string();
  line += "kolo";
  if (const int rank = current_rank; rank >= 0) line += "[rank " + std::to_string(rank) + "]";
  line += std::string(" ") + kNames[static_cast<int>(level)] + ": " + text + "\n";
  // One write() per line, so that lines of several ranks do not mix. Nothing can be done about a
  // standard error that is closed.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace kolo::log
