// The flight recorder: the last operations of this rank, with how far each has come. Always on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/thread_annotations.hpp"
#include "timeline/event.hpp"

namespace kolo::timeline {

class Recorder {
 public:
  // Where an operation stands.
  using Place = std::uint32_t;
  static constexpr Place kNowhere = ~Place{0};

  explicit Recorder(std::size_t capacity) : events_(capacity) {}

  // Allows to write. While it lives, no other thread reads or writes.
  class Pen {
   public:
    explicit Pen(Recorder& recorder) KOLO_NO_THREAD_SAFETY_ANALYSIS : recorder_(recorder) {
      recorder_.mutex_.lock();
    }
    ~Pen() KOLO_NO_THREAD_SAFETY_ANALYSIS { recorder_.mutex_.unlock(); }
    Pen(const Pen&) = delete;
    Pen& operator=(const Pen&) = delete;

    // A place for an operation to be filled in: that of the oldest one that has ended, which still
    // is in it. Nowhere where none has: then it is not recorded.
    Place begin() KOLO_NO_THREAD_SAFETY_ANALYSIS { return recorder_.begin(); }
    // The place is given back by an event that has ended (State::kDone or kFailed).
    OperationEvent& at(Place place) KOLO_NO_THREAD_SAFETY_ANALYSIS {
      return place == kNowhere ? recorder_.unrecorded_ : recorder_.events_[place];
    }

   private:
    Recorder& recorder_;  // outlives this
  };

  // Any thread: all that there is, in the order in which it began.
  std::vector<OperationEvent> copy() const KOLO_EXCLUDES(mutex_);

 private:
  Place begin() KOLO_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::vector<OperationEvent> events_ KOLO_GUARDED_BY(mutex_);
  std::size_t next_ KOLO_GUARDED_BY(mutex_) = 0;
  OperationEvent unrecorded_ KOLO_GUARDED_BY(mutex_);
};

}  // namespace kolo::timeline
