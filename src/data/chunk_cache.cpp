#include "data/chunk_cache.hpp"

#include <exception>
#include <utility>

namespace kolo::data {

ChunkCache::Chunk ChunkCache::get(std::size_t chunk, const std::function<Bytes()>& load) {
  std::promise<Chunk> loaded;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    if (const auto found = entries_.find(chunk); found != entries_.end()) {
      by_use_.splice(by_use_.begin(), by_use_, found->second.place);
      const std::shared_future<Chunk> wanted = found->second.chunk;
      lock.unlock();
      return wanted.get();
    }
    by_use_.push_front(chunk);
    entries_.emplace(chunk, Entry{loaded.get_future().share(), 0, by_use_.begin()});
  }
  try {
    auto bytes = std::make_shared<const Bytes>(load());
    keep(chunk, bytes->size());
    loaded.set_value(bytes);
    return bytes;
  } catch (...) {
    forget(chunk);
    loaded.set_exception(std::current_exception());
    throw;
  }
}

// Records a loaded chunk, and makes room for it. A chunk that is still being loaded has no size yet
// and stays, so that the threads that wait for it find it.
void ChunkCache::keep(std::size_t chunk, std::size_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  entries_.at(chunk).bytes = bytes;
  bytes_ += bytes;
  for (auto at = by_use_.end(); bytes_ > capacity_ && at != by_use_.begin();) {
    --at;
    const auto entry = entries_.find(*at);
    if (entry->second.bytes == 0) continue;
    bytes_ -= entry->second.bytes;
    entries_.erase(entry);
    at = by_use_.erase(at);
  }
}

void ChunkCache::forget(std::size_t chunk) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto entry = entries_.find(chunk);
  if (entry == entries_.end()) return;
  bytes_ -= entry->second.bytes;
  by_use_.erase(entry->second.place);
  entries_.erase(entry);
}

}  // namespace kolo::data
