#include "timeline/watcher.hpp"

#include <poll.h>
#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <system_error>

#include "core/log.hpp"
#include "timeline/wake.hpp"

namespace kolo::timeline {
namespace {

constexpr int kLeastPeriod = 10;  // milliseconds

void note_signal(int /*number*/) {
  wake_watcher(kWakeToDump);
}

// Installs the handler, unless the program has its own.
bool catch_signal() {
  struct sigaction there {};
  if (::sigaction(SIGUSR2, nullptr, &there) != 0) return false;
  if (there.sa_handler != SIG_DFL) return there.sa_handler == note_signal;
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  return ::sigaction(SIGUSR2, &action, nullptr) == 0;
}

}  // namespace

Watcher::Watcher(Tracing& tracing, const Options& options) : tracing_(tracing), options_(options) {
  if (!open_wake_fd()) {
    log::warning("eventfd failed: " + std::generic_category().message(errno) +
                 "; SIGUSR2 will not write a flight recorder");
    return;
  }
  take_wakes();  // given since the last watcher
  if (!catch_signal())
    log::debug("the program handles SIGUSR2 itself, so the signal writes no flight recorder");
  tracing_.set_watched(true);
  thread_ = std::thread([this] {
    run();
    tracing_.set_watched(false);
  });
}

// The handler stays, because a signal that comes now would otherwise end the process.
Watcher::~Watcher() {
  if (!thread_.joinable()) return;
  wake_watcher(kWakeToStop);
  thread_.join();
}

void Watcher::run() {
  pthread_setname_np(pthread_self(), "kolo-watch");
  const auto milliseconds = static_cast<int>(
      std::chrono::duration_cast<std::chrono::milliseconds>(options_.quiet).count());
  const int period = milliseconds > 0 ? std::max(milliseconds / 4, kLeastPeriod) : -1;
  while (true) {
    if (period > 0) tracing_.alive(Clock::now(), std::chrono::milliseconds(period));
    pollfd waiting{wake_fd(), POLLIN, 0};
    const int ready = ::poll(&waiting, 1, period);
    if (ready < 0 && errno == EINTR) continue;
    if (ready > 0) {
      const std::uint64_t why = take_wakes();
      if (why % kWakeToStop > 0) tracing_.write_what_was_asked();
      if (why >= kWakeToStop) return;
    } else if (ready == 0) {
      look(Clock::now());
    } else {
      log::warning("the flight recorder's thread ends: poll failed: " +
                   std::generic_category().message(errno));
      return;
    }
  }
}

// Reports each silence once. A program that has never submitted anything may have other things to
// do.
void Watcher::look(Clock::time_point now) {
  const Nanoseconds last = tracing_.last_submission();
  const Nanoseconds quiet = nanoseconds(now) - last;
  if (last == kNever || last == told_ || quiet < nanoseconds(Clock::time_point(options_.quiet)) ||
      tracing_.is_waited_for() || tracing_.is_over())
    return;
  told_ = last;
  if (options_.tells_of_quiet) {
    log::warning("the program has submitted nothing for " +
                 to_text(std::chrono::seconds(quiet / 1'000'000'000)) +
                 ", and waits for nothing: in step " + std::to_string(tracing_.step()) +
                 " it loads data, evaluates, saves, or hangs outside of kolo "
                 "(KOLO_STALL_CHECK_TIME_SECONDS)");
  }
  tracing_.dump("the program submits nothing");
}

}  // namespace kolo::timeline
