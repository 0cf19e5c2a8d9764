// What a rank records of itself: the flight recorder, always, and the timeline, when it is on.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "timeline/event.hpp"
#include "timeline/flight.hpp"
#include "timeline/metrics_text.hpp"
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
  // What other ranks have told of themselves.
  MetricsBoard& board() { return board_; }
  // From now on dump() writes there.
  void set_flight(const FlightOrigin& origin) KOLO_EXCLUDES(notes_);

  // --- any thread ---

  // Whether there is a timeline to add to. Costs as much as reading a variable.
  bool on() const { return active_.load(std::memory_order_relaxed) != nullptr; }
  // Nothing while it is off. Does not wait: where the writer is too slow the event is dropped and
  // counted.
  void add(const Event& event) KOLO_EXCLUDES(mutex_);

  // Writes the flight recorder, and logs where it is. Waits for the disk. Nothing before
  // set_flight(), and after write_last(): what is written of a failure stays.
  void dump(const std::string& reason) KOLO_EXCLUDES(dump_);
  // What dump() would write at this moment, without waiting for a disk; and writing that, which
  // ends all dumps.
  std::string record(const std::string& reason) KOLO_EXCLUDES(notes_);
  void write_last(const std::string& record) KOLO_EXCLUDES(dump_);
  // Lets the watcher's thread do that, for who must not wait for a disk that does not answer; does
  // so for at most `patience`, for a program often ends at once when something fails.
  void hand_over_last(const std::string& record, Clock::duration patience) KOLO_EXCLUDES(notes_);
  // The watcher's: while it is there, and what it has to write, if there is anything.
  void set_watched(bool watched) KOLO_EXCLUDES(notes_);
  void write_what_was_asked() KOLO_EXCLUDES(notes_) KOLO_EXCLUDES(dump_);
  bool is_over() const { return over_.load(std::memory_order_relaxed); }
  // Likewise of a dump: the reason is kept.
  void ask_for_dump(const std::string& reason) KOLO_EXCLUDES(notes_);

  // What the program does.
  void submitted(Clock::time_point now) {
    last_submission_.store(nanoseconds(now), std::memory_order_relaxed);
  }
  Nanoseconds last_submission() const { return last_submission_.load(std::memory_order_relaxed); }
  // Whether a thread waits for an operation.
  void begin_wait() { waiters_.fetch_add(1, std::memory_order_relaxed); }
  void end_wait() { waiters_.fetch_sub(1, std::memory_order_relaxed); }
  bool is_waited_for() const { return waiters_.load(std::memory_order_relaxed) > 0; }

  // A thread says that it runs, and that it will again after that time. If it does not, the whole
  // process does not.
  void alive(Clock::time_point now, Clock::duration next);

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
  std::atomic<Nanoseconds> frozen_{0};       // for how long, when it did not run
  std::atomic<Nanoseconds> thawed_{kNever};  // when it ran again
  std::atomic<bool> over_{false};
  Mutex dump_;  // held while a dump is written
  Mutex notes_;
  std::optional<std::string> reason_ KOLO_GUARDED_BY(notes_);
  std::optional<std::string> last_ KOLO_GUARDED_BY(notes_);
  bool watched_ KOLO_GUARDED_BY(notes_) = false;
  CondVar last_changed_;  // it is written, or nobody will
  FlightOrigin flight_ KOLO_GUARDED_BY(notes_);
  Mutex mutex_;
  std::unique_ptr<EventRing> ring_ KOLO_GUARDED_BY(mutex_);  // made once: who adds may be late
  std::shared_ptr<Writer> writer_ KOLO_GUARDED_BY(mutex_);
  const void* stepper_ KOLO_GUARDED_BY(mutex_) = nullptr;  // who counts steps
  Nanoseconds step_began_ KOLO_GUARDED_BY(mutex_) = kNever;
};

// The kernel's number of this thread.
std::int32_t this_thread();

}  // namespace kolo::timeline
