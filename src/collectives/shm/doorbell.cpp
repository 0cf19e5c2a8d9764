#include "collectives/shm/doorbell.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace kolo::shm {
namespace {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t), "a futex has 32 bits");
static_assert(std::atomic<std::uint32_t>::is_always_lock_free, "processes share no locks");

// Without FUTEX_PRIVATE_FLAG, because other processes map the line elsewhere.
void wake(std::atomic<std::uint32_t>& futex) {
  syscall(SYS_futex, &futex, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// The thread sanitizer does not support fences. It need not, because only the order of atomics
// depends on this one.
void full_fence() {
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtsan"
#endif
  std::atomic_thread_fence(std::memory_order_seq_cst);
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
}

timespec to_timespec(Clock::duration duration) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(duration);
  const auto rest = std::chrono::duration_cast<std::chrono::nanoseconds>(duration - seconds);
  return {static_cast<std::time_t>(seconds.count()), static_cast<long>(rest.count())};
}

}  // namespace

// Either this call sees that the thread waits, or the kernel sees the ring and does not let the
// thread sleep.
void Doorbell::ring() {
  lines_->rings.fetch_add(1, std::memory_order_seq_cst);
  if (waits_.load(std::memory_order_seq_cst)) wake(lines_->rings);
}

// May return early, after a signal: the caller looks again.
void Doorbell::wait(std::uint32_t rings, std::optional<Clock::time_point> deadline) {
  timespec timeout{};
  if (deadline) {
    const Clock::duration left = *deadline - Clock::now();
    if (left <= Clock::duration::zero()) return;
    timeout = to_timespec(left);
  }
  waits_.store(true, std::memory_order_seq_cst);
  syscall(SYS_futex, &lines_->rings, FUTEX_WAIT, rings, deadline ? &timeout : nullptr, nullptr, 0);
  waits_.store(false, std::memory_order_relaxed);
}

// Either a rank that writes sees that this rank listens, or this rank, which looks after this call,
// sees what was written.
void Doorbell::listen() {
  listens_.store(true, std::memory_order_relaxed);
  lines_->called.store(0, std::memory_order_relaxed);
  lines_->listens.store(1, std::memory_order_relaxed);
  full_fence();
}

void Doorbell::stop_listening() {
  if (listens_.exchange(false, std::memory_order_relaxed))
    lines_->listens.store(0, std::memory_order_relaxed);
}

void Doorbell::call(Lines& lines) {
  full_fence();
  if (lines.listens.load(std::memory_order_relaxed) == 0) return;
  lines.called.store(1, std::memory_order_release);
  lines.rings.fetch_add(1, std::memory_order_seq_cst);
  wake(lines.rings);
}

}  // namespace kolo::shm
