#include "engine/parking.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

namespace kolo {
namespace {

// Time after which the engine's thread looks whether it may listen again, or drive.
constexpr Clock::duration kLookAgain = std::chrono::milliseconds(50);

}  // namespace

void Parking::wake() {
  if (is_replaced()) return condition_.notify_one();
  wake_ = true;
  doorbell_.ring();
}

void Parking::call(bool quietly) {
  called_.store(true, std::memory_order_relaxed);
  if (quietly) return;
  const MutexLock lock(mutex_);
  wake();
}

// A quiet call by itself needs no lock of this class. A thread that begins to drive at the same
// moment takes the entry, or has emptied the mailbox before the caller locked it; then its
// replaced_ is seen here. A thread that sleeps without an alarm is woken once, to set it.
void Parking::call_for_submission(bool quietly) {
  called_.store(true, std::memory_order_relaxed);
  if (quietly && !is_replaced()) return;
  const MutexLock lock(mutex_);
  if (is_replaced()) return wake();
  if (quietly) return;
  if (!patience_) return wake();
  submitted_ = true;
  const Clock::time_point then = Clock::now() + *patience_;
  if (alarm_ && *alarm_ <= then) return;
  set_alarm(then);
}

// Makes the engine's thread wake by itself at that time, so that nobody has to wake it before.
void Parking::set_alarm(Clock::time_point then) {
  alarm_ = then;
  doorbell_.stop_listening();
  doorbell_.ring();
}

// Ends listening for other ranks: the thread that drives looks at what they write. It often drives
// again before they write next, and listening in between would cost much more. After a while the
// engine's thread may listen again.
bool Parking::begin() {
  const MutexLock lock(mutex_);
  if (replaced_.exchange(true, std::memory_order_relaxed)) return false;
  if (doorbell_.listens()) set_alarm(Clock::now() + kLookAgain);
  return true;
}

void Parking::end(bool more) {
  const MutexLock lock(mutex_);
  replaced_.store(false, std::memory_order_relaxed);
  if (more || called_.load(std::memory_order_relaxed)) wake();
}

void Parking::rest(Clock::time_point deadline) {
  const MutexLock lock(mutex_);
  while (!called_.load(std::memory_order_relaxed)) {
    if (!condition_.wait_until(mutex_, deadline)) break;
  }
}

Parking::Waiter::Waiter(Parking& parking) : parking_(parking) {
  const MutexLock lock(parking_.mutex_);
  ++parking_.waiters_;
  parking_.wake();
}

Parking::Waiter::~Waiter() {
  const MutexLock lock(parking_.mutex_);
  --parking_.waiters_;
}

bool Parking::somebody_waits() const {
  const MutexLock lock(mutex_);
  return waiters_ > 0;
}

void Parking::lose_patience() {
  const MutexLock lock(mutex_);
  patience_.reset();
  if (std::exchange(submitted_, false)) wake();
}

// Sets the alarm for a sleep until the deadline. Without an earlier alarm, the doorbell stays on.
void Parking::prepare_alarm(std::optional<Clock::time_point> deadline) {
  const Clock::time_point now = Clock::now();
  // A distant deadline only serves timers; keep listening.
  const bool is_distant = deadline && *deadline > now + kLookAgain;
  alarm_ = is_distant ? std::nullopt : deadline;
  if (submitted_ && (waiters_ == 0 || !alarm_)) alarm_ = now + *patience_;
  // Nobody wakes this thread when the thread in its place leaves nothing to do. It listens after it
  // has looked once more.
  if (!alarm_ && (is_replaced() || !doorbell_.listens())) alarm_ = now + kLookAgain;
  if (alarm_) {
    doorbell_.stop_listening();
  } else {
    alarm_ = deadline;
  }
}

void Parking::park(std::optional<Clock::time_point> deadline) {
  {
    const MutexLock lock(mutex_);
    prepare_alarm(deadline);
  }
  while (true) {
    const std::uint32_t rings = doorbell_.rings();
    std::optional<Clock::time_point> until;
    {
      const MutexLock lock(mutex_);
      const Clock::time_point now = Clock::now();
      if (is_time_to_turn(now)) {
        wake_ = false;
        submitted_ = false;
        break;
      }
      if (is_replaced()) {
        until = now + kLookAgain;
      } else if (alarm_) {
        until = time_of_alarm();
      }
    }
    doorbell_.wait(rings, until);
  }
  doorbell_.stop_listening();
}

// Returns when the engine's thread wakes by itself. Submitting threads postpone the alarm, but not
// for a blocked thread and not without end, because they do not look at timers.
Clock::time_point Parking::time_of_alarm() const {
  if (!patience_ || waiters_ > 0) return *alarm_;
  const Clock::time_point helped(helped_.load(std::memory_order_relaxed));
  return std::clamp(helped + *patience_, *alarm_, *alarm_ + kLookAgain);
}

bool Parking::is_time_to_turn(Clock::time_point now) const {
  if (is_replaced()) return false;
  return wake_ || (doorbell_.listens() && doorbell_.called()) || (alarm_ && now >= time_of_alarm());
}

}  // namespace kolo
