// Log lines on standard error: "kolo[rank 3] warning: text". Any thread may call.
#pragma once

#include <string>

#include "core/config.hpp"

namespace kolo::log {

// Called by init(); before it, lines carry no rank and the level is warning.
void configure(LogLevel level, bool timestamp, int rank);
bool enabled(LogLevel level);
void write(LogLevel level, const std::string& text);

inline void debug(const std::string& text) {
  write(LogLevel::kDebug, text);
}
inline void info(const std::string& text) {
  write(LogLevel::kInfo, text);
}
inline void warning(const std::string& text) {
  write(LogLevel::kWarning, text);
}
inline void error(const std::string& text) {
  write(LogLevel::kError, text);
}

}  // namespace kolo::log
