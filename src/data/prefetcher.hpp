// Loads batches ahead in threads.
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

// Loads the batches number 0 to count - 1, each once, in several threads, and never more than
// `ahead` of them beyond those that were taken. Used by one thread.
class Prefetcher {
 public:
  // Makes the batch of this number. Each thread has one of its own.
  using Load = std::function<Batch(std::size_t number)>;

  // ordered: next() returns the batches by their numbers, otherwise as they are ready. `ahead` is
  // at least 1.
  Prefetcher(std::vector<Load> loads, std::size_t count, std::size_t ahead, bool ordered);
  // Waits for the batches that are being loaded; the others are not begun.
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // Waits for the next batch; std::nullopt after the last one. Throws what its loading threw, in
  // the batch's turn; the following batches are loaded all the same.
  std::optional<Batch> next();

 private:
  struct Result {
    Batch batch;
    std::exception_ptr error;
  };

  void stop();
  void run(const Load& load);
  // std::nullopt: there are no more, or it is time to stop.
  std::optional<std::size_t> wait_for_number();
  bool can_begin() const { return begun_ < count_ && begun_ < taken_ + ahead_; }

  const std::size_t count_;
  const std::size_t ahead_;
  const bool ordered_;
  std::mutex mutex_;
  std::condition_variable has_room_;
  std::condition_variable has_result_;
  // Guarded by mutex_:
  std::size_t begun_ = 0;  // batches that threads have begun to load
  std::size_t taken_ = 0;  // batches that next() has returned
  std::map<std::size_t, Result> results_;
  bool stops_ = false;

  std::vector<std::thread> threads_;  // of the user's thread alone
};

}  // namespace kolo::data
