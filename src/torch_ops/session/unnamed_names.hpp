// Names for those operations of a process set that the program does not name.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "core/thread_annotations.hpp"

namespace kolo {

// Counts calls of all kinds, so that the same call has the same name on every rank. Ranks that make
// different calls meet under one name, which is an error. While a rank has joined, the others count
// on without it, so all ranks start over when the join ends. Any thread may call.
class UnnamedNames {
 public:
  // Returns "unnamed.3", or after two joins "unnamed.2.3".
  std::string next() KOLO_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return name(count_++);
  }

  // Returns a name for a message. Messages are counted per pair of ranks.
  std::string next_between(int source, int destination) KOLO_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return name(between_[{source, destination}]++);
  }

  // The number of start_over() calls, the same on every rank.
  std::uint64_t joins() KOLO_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return joins_;
  }

  // Restarts the counts when all ranks have joined.
  void start_over() KOLO_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    ++joins_;
    count_ = 0;
    between_.clear();
  }

 private:
  std::string name(std::uint64_t number) const KOLO_REQUIRES(mutex_) {
    const std::string joins = joins_ == 0 ? "" : std::to_string(joins_) + ".";
    return "unnamed." + joins + std::to_string(number);
  }

  Mutex mutex_;
  std::uint64_t joins_ KOLO_GUARDED_BY(mutex_) = 0;
  std::uint64_t count_ KOLO_GUARDED_BY(mutex_) = 0;
  std::map<std::pair<int, int>, std::uint64_t> between_ KOLO_GUARDED_BY(mutex_);
};

}  // namespace kolo
