// What a rank records of itself: the flight recorder, always, and the timeline, when it is on.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "timeline/event.hpp"
#include "timeline/recorder.hpp"
#include "timeline/writer.hpp"

namespace kolo::timeline {

class Tracing {
 public:
  Tracing();
  ~Tracing();
  Tracing(const Tracing&) = delete;
  Tracing& operator=(const Tracing&) = delete;

  Recorder& recorder() { return recorder_; }

  // --- any thread ---

  // Whether there is a timeline to add to. Costs as much as reading a variable.
  bool on() const { return active_.load(std::memory_order_relaxed) != nullptr; }
  // Nothing while it is off. Does not wait: where the writer is too slow the event is dropped and
  // counted.
  void add(const Event& event) KOLO_EXCLUDES(mutex_);

  // The step of training that the program is in, from 1 on.
  std::int64_t step() const { return step_.load(std::memory_order_relaxed); }
  // Ends the step. Of several that call this the first one counts, until it stops counting.
  void end_step(const void* caller) KOLO_EXCLUDES(mutex_);
  void stop_counting(const void* caller) KOLO_EXCLUDES(mutex_);

  // Of who drives the engine.
  LoadEvent load;
  void add_load();

  // Whether each tensor of a bucket is added beside the bucket.
  bool shows_bucket_members() const { return bucket_members_.load(std::memory_order_relaxed); }

  // --- one thread at a time ---
  void show_bucket_members(bool show) { bucket_members_ = show; }
  void start(std::unique_ptr<TraceFile> file, const Origin& origin,
             std::function<void()> now_and_then) KOLO_EXCLUDES(mutex_);
  // `now_and_then` is not called any more, nor under way.
  void keep_quiet() KOLO_EXCLUDES(mutex_);
  // Writes what was added before.
  void stop() KOLO_EXCLUDES(mutex_);

 private:
  std::shared_ptr<Writer> writer() KOLO_EXCLUDES(mutex_);

  Recorder recorder_;
  std::atomic<EventRing*> active_{nullptr};  // null: off
  std::atomic<std::int64_t> step_{1};
  std::atomic<bool> bucket_members_{true};
  Mutex mutex_;
  std::unique_ptr<EventRing> ring_ KOLO_GUARDED_BY(mutex_);  // made once: who adds may be late
  std::shared_ptr<Writer> writer_ KOLO_GUARDED_BY(mutex_);
  const void* stepper_ KOLO_GUARDED_BY(mutex_) = nullptr;  // who counts steps
  Nanoseconds step_began_ KOLO_GUARDED_BY(mutex_) = kNever;
};

// The kernel's number of this thread.
std::int32_t this_thread();

}  // namespace kolo::timeline
