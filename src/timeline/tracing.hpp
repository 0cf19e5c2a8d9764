// Records what a rank does: always in the flight recorder, and in the timeline while that is on.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "metrics/text.hpp"
#include "timeline/event.hpp"
#include "timeline/flight.hpp"
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
  Meters& meters() { return meters_; }
  Measures measures() const;  // any thread
  // The measures that other ranks have reported.
  MetricsBoard& board() { return board_; }
  // Sets where dump() writes.
  void set_flight(const FlightOrigin& origin) KOLO_EXCLUDES(notes_);

  // --- any thread ---

  // Whether a timeline is on. Costs as much as reading a variable.
  bool on() const { return active_.load(std::memory_order_relaxed) != nullptr; }
  // Adds an event to the timeline, if one is on. Does not wait: if the writer is too slow, the
  // event is dropped and counted.
  void add(const Event& event) KOLO_EXCLUDES(mutex_);

  // Writes the flight recorder, and logs the file's name. Waits for the disk. Does nothing before
  // set_flight() and after write_last(), so that the record of a failure stays.
  void dump(const std::string& reason) KOLO_EXCLUDES(dump_);
  // Returns the text that dump() would write now, without waiting for a disk.
  std::string record(const std::string& reason) KOLO_EXCLUDES(notes_);
  // Writes such a text, and makes all later dumps do nothing.
  void write_last(const std::string& record) KOLO_EXCLUDES(dump_);
  // Lets the watcher's thread call write_last(), so that a disk that hangs does not block the
  // caller. Waits at most `patience` for it, because a program often ends at once after a failure.
  void hand_over_last(const std::string& record, Clock::duration patience) KOLO_EXCLUDES(notes_);
  // For the watcher's thread: notes whether it runs, and writes the dump or the last record that
  // was asked for, if any.
  void set_watched(bool watched) KOLO_EXCLUDES(notes_);
  void write_what_was_asked() KOLO_EXCLUDES(notes_) KOLO_EXCLUDES(dump_);
  bool is_over() const { return over_.load(std::memory_order_relaxed); }
  // Lets the watcher's thread call dump().
  void ask_for_dump(const std::string& reason) KOLO_EXCLUDES(notes_);

  // Notes that the program has submitted an operation.
  void submitted(Clock::time_point now) {
    last_submission_.store(nanoseconds(now), std::memory_order_relaxed);
  }
  Nanoseconds last_submission() const { return last_submission_.load(std::memory_order_relaxed); }
  // Whether a thread waits for an operation.
  void begin_wait() { waiters_.fetch_add(1, std::memory_order_relaxed); }
  void end_wait() { waiters_.fetch_sub(1, std::memory_order_relaxed); }
  bool is_waited_for() const { return waiters_.load(std::memory_order_relaxed) > 0; }

  // Notes that a thread runs now and will run again after `next`. If it does not, the whole process
  // was stopped.
  void alive(Clock::time_point now, Clock::duration next);

  // The program's training step, from 1 on.
  std::int64_t step() const { return step_.load(std::memory_order_relaxed); }
  // Ends the step. If several callers do, only the first one counts, until its stop_counting().
  void end_step(const void* caller) KOLO_EXCLUDES(mutex_);
  void stop_counting(const void* caller) KOLO_EXCLUDES(mutex_);

  // For the thread that drives the engine.
  LoadEvent load;
  void add_load();

  // Whether the timeline also gets each tensor of a bucket, beside the bucket.
  bool shows_bucket_members() const { return bucket_members_.load(std::memory_order_relaxed); }

  // --- one thread at a time ---
  void show_bucket_members(bool show) { bucket_members_ = show; }
  void start(std::unique_ptr<TraceFile> file, const Origin& origin,
             std::function<void()> now_and_then) KOLO_EXCLUDES(mutex_);
  // Ends the calls of `now_and_then`, and waits for one in progress.
  void keep_quiet() KOLO_EXCLUDES(mutex_);
  // Writes the events added so far, and ends the timeline.
  void stop() KOLO_EXCLUDES(mutex_);

 private:
  std::shared_ptr<Writer> writer() KOLO_EXCLUDES(mutex_);
  Nanoseconds frozen_for(Nanoseconds now) const;
  FlightOrigin flight() KOLO_EXCLUDES(notes_);
  void write(const std::string& text) KOLO_REQUIRES(dump_);

  Recorder recorder_;
  Meters meters_;
  MetricsBoard board_;
  std::atomic<EventRing*> active_{nullptr};  // null: off
  std::atomic<std::int64_t> step_{1};
  std::atomic<bool> bucket_members_{true};
  std::atomic<Nanoseconds> last_submission_{kNever};
  std::atomic<int> waiters_{0};
  std::atomic<Nanoseconds> awake_until_{kNever};
  std::atomic<Nanoseconds> frozen_{0};       // how long the process last did not run
  std::atomic<Nanoseconds> thawed_{kNever};  // when it ran again
  std::atomic<bool> over_{false};
  Mutex dump_;  // held while a dump is written
  Mutex notes_;
  std::optional<std::string> reason_ KOLO_GUARDED_BY(notes_);
  std::optional<std::string> last_ KOLO_GUARDED_BY(notes_);
  bool watched_ KOLO_GUARDED_BY(notes_) = false;
  CondVar last_changed_;  // last_ is written, or the watcher has ended
  FlightOrigin flight_ KOLO_GUARDED_BY(notes_);
  Mutex mutex_;
  std::unique_ptr<EventRing> ring_
      KOLO_GUARDED_BY(mutex_);  // made once: an adding thread may be late
  std::shared_ptr<Writer> writer_ KOLO_GUARDED_BY(mutex_);
  const void* stepper_ KOLO_GUARDED_BY(mutex_) = nullptr;  // the caller that counts steps
  Nanoseconds step_began_ KOLO_GUARDED_BY(mutex_) = kNever;
};

// Returns the kernel's number of this thread.
std::int32_t this_thread();

}  // namespace kolo::timeline
