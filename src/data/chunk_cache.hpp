// A cache of chunks, shared by the threads that read one file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace kolo::data {

// Keeps the most recently used chunks, up to `capacity` bytes. If several threads want the same
// chunk, one loads it and the others wait for it.
class ChunkCache {
 public:
  using Bytes = std::vector<std::uint8_t>;
  using Chunk = std::shared_ptr<const Bytes>;

  explicit ChunkCache(std::size_t capacity) : capacity_(capacity) {}

  // Returns the chunk. Calls load() if the cache does not have it. An exception from load() reaches
  // all threads that wait for this chunk; the next call loads it again.
  Chunk get(std::size_t chunk, const std::function<Bytes()>& load);

 private:
  struct Entry {
    std::shared_future<Chunk> chunk;
    std::size_t bytes = 0;                   // 0 until loaded
    std::list<std::size_t>::iterator place;  // in by_use_
  };

  void keep(std::size_t chunk, std::size_t bytes);
  void forget(std::size_t chunk);

  const std::size_t capacity_;
  std::mutex mutex_;
  // Guarded by mutex_:
  std::unordered_map<std::size_t, Entry> entries_;
  std::list<std::size_t> by_use_;  // most recently used first
  std::size_t bytes_ = 0;
};

}  // namespace kolo::data
