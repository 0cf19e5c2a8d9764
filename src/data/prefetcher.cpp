#include "data/prefetcher.hpp"

#include <utility>

namespace kolo::data {

Prefetcher::Prefetcher(std::vector<Load> loads, std::size_t ahead, bool ordered)
    : ahead_(ahead), ordered_(ordered) {
  threads_.reserve(loads.size());
  try {
    for (Load& load : loads) threads_.emplace_back([this, load = std::move(load)] { run(load); });
  } catch (...) {  // the system has no more threads
    stop();
    throw;
  }
}

Prefetcher::~Prefetcher() {
  stop();
}

void Prefetcher::stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stops_ = true;
  }
  has_room_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Prefetcher::begin(std::size_t count) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    count_ = count;
    begun_ = loaded_ = taken_ = 0;
  }
  has_room_.notify_all();
}

void Prefetcher::end() {
  std::unique_lock<std::mutex> lock(mutex_);
  count_ = begun_;
  has_result_.wait(lock, [this] { return loaded_ == begun_; });
  results_.clear();
  taken_ = count_;
}

std::optional<std::size_t> Prefetcher::wait_for_number(std::unique_lock<std::mutex>& lock) {
  has_room_.wait(lock, [this] { return stops_ || can_begin(); });
  if (stops_) return std::nullopt;
  return begun_++;
}

void Prefetcher::run(const Load& load) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (const std::optional<std::size_t> number = wait_for_number(lock)) {
    lock.unlock();
    Result result;
    try {
      result.batch = load(*number);
    } catch (...) {
      result.error = std::current_exception();
    }
    lock.lock();
    ++loaded_;
    results_.emplace(*number, std::move(result));
    if (has_next()) has_result_.notify_one();  // also true once all are loaded, which end() awaits
  }
}

std::optional<Batch> Prefetcher::next() {
  std::unique_lock<std::mutex> lock(mutex_);
  if (taken_ == count_) return std::nullopt;
  has_result_.wait(lock, [this] { return has_next(); });
  auto first = results_.extract(results_.begin());
  ++taken_;
  lock.unlock();
  has_room_.notify_one();  // room for one more
  if (first.mapped().error) std::rethrow_exception(first.mapped().error);
  return std::move(first.mapped().batch);
}

}  // namespace kolo::data
