// Wakes the watcher's thread, also from a signal handler.
#pragma once

#include <cstdint>

namespace kolo::timeline {

constexpr std::uint64_t kWakeToDump = 1;  // write the flight recorder
constexpr std::uint64_t kWakeToStop = std::uint64_t{1} << 32;

// Creates the eventfd for the functions below, once per process. Returns false and sets errno on
// failure.
bool open_wake_fd();

// For poll(): readable when the watcher was woken.
int wake_fd();

// Wakes the watcher, if there is one. Safe in a signal's handler, and keeps errno.
void wake_watcher(std::uint64_t why);

// Returns the sum of the reasons given since the last call, or 0.
std::uint64_t take_wakes();

}  // namespace kolo::timeline
