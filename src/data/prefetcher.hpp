// Loads batches ahead of their use, in threads.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "kolo/data/dataset.h"

namespace kolo::data {

// Loads the batches of an epoch, each once, in several threads, at most `ahead` of them beyond
// those already taken. The threads live as long as the object: starting them for each epoch would
// take longer than an epoch of small batches. Used by one thread.
class Prefetcher {
 public:
  // Makes the batch with this number. Each thread has its own Load.
  using Load = std::function<Batch(std::size_t number)>;

  // ordered: next() returns batches by their numbers; otherwise as they become ready. `ahead` is at
  // least 1.
  Prefetcher(std::vector<Load> loads, std::size_t ahead, bool ordered);
  // Ends the epoch like end(), and ends the threads.
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // Starts loading batches 0 to count - 1. The previous epoch must have ended.
  void begin(std::size_t count);

  // Waits for the next batch; returns std::nullopt after the last one. If loading the batch failed,
  // throws that exception; later batches are loaded nevertheless.
  std::optional<Batch> next();

  // Waits for the batches being loaded, starts no others, and drops all results.
  void end();

 private:
  struct Result {
    Batch batch;
    std::exception_ptr error;
  };

  void stop();
  void run(const Load& load);
  // Returns std::nullopt if the thread must stop.
  std::optional<std::size_t> wait_for_number(std::unique_lock<std::mutex>& lock);
  bool can_begin() const { return begun_ < count_ && begun_ < taken_ + ahead_; }
  bool has_next() const {
    return !results_.empty() && (!ordered_ || results_.begin()->first == taken_);
  }

  const std::size_t ahead_;
  const bool ordered_;
  std::mutex mutex_;
  std::condition_variable has_room_;
  std::condition_variable has_result_;  // also notified when no batch is being loaded
  // Guarded by mutex_:
  std::size_t count_ = 0;   // batches of the epoch
  std::size_t begun_ = 0;   // batches that threads have begun to load
  std::size_t loaded_ = 0;  // loaded, or failed
  std::size_t taken_ = 0;   // batches that next() has returned
  std::map<std::size_t, Result> results_;
  bool stops_ = false;

  std::vector<std::thread> threads_;  // used only by the user's thread
};

}  // namespace kolo::data
