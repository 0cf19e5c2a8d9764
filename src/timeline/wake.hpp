// How the watcher's thread is woken, also by a signal's handler.
#pragma once

#include <cstdint>

namespace kolo::timeline {

constexpr std::uint64_t kWakeToDump = 1;  // write the flight recorder
constexpr std::uint64_t kWakeToStop = std::uint64_t{1} << 32;

// Makes what the functions below use, once in a process. False, with errno, if there is no more.
bool make_wakes();

// For poll(): readable when the watcher was woken.
int wakes_fd();

// Wakes the watcher, if there is one. Safe in a signal's handler, and keeps errno.
void wake_watcher(std::uint64_t why);

// Returns the sum of the reasons for which the watcher was woken since the last call; 0: it was
// not.
std::uint64_t take_wakes();

}  // namespace kolo::timeline
