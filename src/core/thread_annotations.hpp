// Clang's thread-safety attributes (https://clang.llvm.org/docs/ThreadSafetyAnalysis.html), and a
// mutex that carries them. With other compilers they vanish. The preset "thread-safety" checks
// them.
#pragma once

#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define KOLO_ATTRIBUTE(x) __attribute__((x))
#else
#define KOLO_ATTRIBUTE(x)
#endif

#define KOLO_GUARDED_BY(x) KOLO_ATTRIBUTE(guarded_by(x))
#define KOLO_REQUIRES(x) KOLO_ATTRIBUTE(requires_capability(x))
#define KOLO_NO_THREAD_SAFETY_ANALYSIS KOLO_ATTRIBUTE(no_thread_safety_analysis)
#define KOLO_EXCLUDES(x) KOLO_ATTRIBUTE(locks_excluded(x))
#define KOLO_RETURNS(x) KOLO_ATTRIBUTE(lock_returned(x))

namespace kolo {

class KOLO_ATTRIBUTE(capability("mutex")) Mutex {
 public:
  void lock() KOLO_ATTRIBUTE(acquire_capability()) { mutex_.lock(); }
  bool try_lock() KOLO_ATTRIBUTE(try_acquire_capability(true)) { return mutex_.try_lock(); }
  void unlock() KOLO_ATTRIBUTE(release_capability()) { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class KOLO_ATTRIBUTE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) KOLO_ATTRIBUTE(acquire_capability(mutex)) : mutex_(mutex) {
    mutex_.lock();
  }
  ~MutexLock() KOLO_ATTRIBUTE(release_capability()) { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// A condition variable for Mutex. As always, wait in a loop that tests the condition.
class CondVar {
 public:
  void wait(Mutex& mutex) KOLO_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }
  // False when the deadline passed.
  template <typename TimePoint>
  bool wait_until(Mutex& mutex, TimePoint deadline) KOLO_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    const bool in_time = condition_.wait_until(lock, deadline) == std::cv_status::no_timeout;
    lock.release();
    return in_time;
  }
  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace kolo
