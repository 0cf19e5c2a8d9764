#include "coordinator/operation.hpp"

namespace kolo {

void Operation::complete(Status status, bool absent_everywhere) {
  // Notified under the lock: a waiter may destroy the operation as soon as it sees the end.
  MutexLock lock(mutex_);
  status_ = std::move(status);
  absent_everywhere_ = absent_everywhere;
  done_.store(true, std::memory_order_release);
  condition_.notify_all();
}

bool Operation::wait_until(std::optional<Clock::time_point> deadline) const {
  MutexLock lock(mutex_);
  while (!done()) {
    if (!deadline) {
      condition_.wait(mutex_);
    } else if (!condition_.wait_until(mutex_, *deadline)) {
      return done();
    }
  }
  return true;
}

Status Operation::status() const {
  MutexLock lock(mutex_);
  return status_;
}

bool Operation::absent_everywhere() const {
  MutexLock lock(mutex_);
  return absent_everywhere_;
}

}  // namespace kolo
