#include "timeline/wake.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace kolo::timeline {
namespace {

// The watcher's eventfd. It is global because a signal handler can reach nothing else, and never
// closed because a handler may be about to write to it.
std::atomic<int> wakes{-1};
static_assert(std::atomic<int>::is_always_lock_free);

}  // namespace

bool open_wake_fd() {
  if (wakes < 0) wakes = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  return wakes >= 0;
}

int wake_fd() {
  return wakes;
}

void wake_watcher(std::uint64_t why) {
  if (wakes < 0) return;
  const int before = errno;
  [[maybe_unused]] const ssize_t written = ::write(wakes, &why, sizeof why);
  errno = before;
}

std::uint64_t take_wakes() {
  std::uint64_t why = 0;
  return ::read(wakes, &why, sizeof why) == sizeof why ? why : 0;
}

}  // namespace kolo::timeline
