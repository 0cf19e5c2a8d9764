#include "timeline/recorder.hpp"

#include <algorithm>

namespace kolo::timeline {
namespace {

bool is_free(const OperationEvent& event) {
  return event.submitted == kNever || event.state >= State::kDone;
}

}  // namespace

// Skips operations that are still in flight, because these are of interest when a job hangs.
Recorder::Place Recorder::begin() {
  for (std::size_t tried = 0; tried < events_.size(); ++tried) {
    const std::size_t place = next_;
    next_ = (next_ + 1) % events_.size();
    if (is_free(events_[place])) return static_cast<Place>(place);
  }
  return kNowhere;
}

std::vector<OperationEvent> Recorder::copy() const {
  std::vector<OperationEvent> all;
  {
    const MutexLock lock(mutex_);
    all = events_;
  }
  all.erase(std::remove_if(all.begin(), all.end(),
                           [](const OperationEvent& event) { return event.submitted == kNever; }),
            all.end());
  std::stable_sort(all.begin(), all.end(), [](const OperationEvent& a, const OperationEvent& b) {
    return a.submitted < b.submitted;
  });
  return all;
}

}  // namespace kolo::timeline
