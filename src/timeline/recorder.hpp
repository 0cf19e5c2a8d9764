// The flight recorder: the last operations of this rank, and how far each has come. Always on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/thread_annotations.hpp"
#include "timeline/event.hpp"

namespace kolo::timeline {

class Recorder {
 public:
  // The place of an operation in the recorder.
  using Place = std::uint32_t;
  static constexpr Place kNowhere = ~Place{0};

  explicit Recorder(std::size_t capacity) : events_(capacity) {}

  // Allows writing. While it lives, no other thread reads or writes.
  class Pen {
   public:
    explicit Pen(Recorder& recorder) KOLO_NO_THREAD_SAFETY_ANALYSIS : recorder_(recorder) {
      recorder_.mutex_.lock();
    }
    ~Pen() KOLO_NO_THREAD_SAFETY_ANALYSIS { recorder_.mutex_.unlock(); }
    Pen(const Pen&) = delete;
    Pen& operator=(const Pen&) = delete;

    // Returns a place to fill in with an operation: that of the oldest one that has ended, whose
    // contents are still there. kNowhere if none has ended; the new operation is then not recorded.
    Place begin() KOLO_NO_THREAD_SAFETY_ANALYSIS { return recorder_.begin(); }
    // An event that has ended (State::kDone or kFailed) gives its place back.
    OperationEvent& at(Place place) KOLO_NO_THREAD_SAFETY_ANALYSIS {
      return place == kNowhere ? recorder_.unrecorded_ : recorder_.events_[place];
    }

   private:
    Recorder& recorder_;  // outlives this
  };

  // Returns all recorded operations, in the order in which they were submitted. Any thread may call
  // it.
  std::vector<OperationEvent> copy() const KOLO_EXCLUDES(mutex_);

 private:
  Place begin() KOLO_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::vector<OperationEvent> events_ KOLO_GUARDED_BY(mutex_);
  std::size_t next_ KOLO_GUARDED_BY(mutex_) = 0;
  OperationEvent unrecorded_ KOLO_GUARDED_BY(mutex_);
};

}  // namespace kolo::timeline
