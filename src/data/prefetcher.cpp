#include "data/prefetcher.hpp"

#include <utility>

namespace kolo::data {

Prefetcher::Prefetcher(std::vector<Load> loads, std::size_t count, std::size_t ahead, bool ordered)
    : count_(count), ahead_(ahead), ordered_(ordered) {
  threads_.reserve(loads.size());
  try {
    for (Load& load : loads) threads_.emplace_back([this, load = std::move(load)] { run(load); });
  } catch (...) {  // the system has no thread left
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

std::optional<std::size_t> Prefetcher::wait_for_number() {
  std::unique_lock<std::mutex> lock(mutex_);
  has_room_.wait(lock, [this] { return stops_ || begun_ == count_ || can_begin(); });
  if (stops_ || begun_ == count_) return std::nullopt;
  return begun_++;
}

void Prefetcher::run(const Load& load) {
  while (const std::optional<std::size_t> number = wait_for_number()) {
    Result result;
    try {
      result.batch = load(*number);
    } catch (...) {
      result.error = std::current_exception();
    }
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      results_.emplace(*number, std::move(result));
    }
    has_result_.notify_one();
  }
}

std::optional<Batch> Prefetcher::next() {
  std::unique_lock<std::mutex> lock(mutex_);
  if (taken_ == count_) return std::nullopt;
  const auto is_there = [this] {
    return !results_.empty() && (!ordered_ || results_.begin()->first == taken_);
  };
  has_result_.wait(lock, is_there);
  auto first = results_.extract(results_.begin());
  ++taken_;
  lock.unlock();
  has_room_.notify_all();
  if (first.mapped().error) std::rethrow_exception(first.mapped().error);
  return std::move(first.mapped().batch);
}

}  // namespace kolo::data
