// Chunks that were read lately, shared by the threads that read from one file.
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

// Holds up to `capacity` bytes of the chunks that were asked for last. Of several threads that want
// the same chunk one loads it and the others wait for that.
class ChunkCache {
 public:
  using Bytes = std::vector<std::uint8_t>;
  using Chunk = std::shared_ptr<const Bytes>;

  explicit ChunkCache(std::size_t capacity) : capacity_(capacity) {}

  // Returns the chunk, and calls load() if it is not there. What load() throws reaches all that
  // wait for this chunk, and is not kept.
  Chunk get(std::size_t chunk, const std::function<Bytes()>& load);

 private:
  struct Entry {
    std::shared_future<Chunk> chunk;
    std::size_t bytes = 0;                   // 0 until it is loaded
    std::list<std::size_t>::iterator place;  // in lately_
  };

  void keep(std::size_t chunk, std::size_t bytes);
  void forget(std::size_t chunk);

  const std::size_t capacity_;
  std::mutex mutex_;
  // Guarded by mutex_:
  std::unordered_map<std::size_t, Entry> entries_;
  std::list<std::size_t> lately_;  // the last one that was asked for is in front
  std::size_t bytes_ = 0;
};

}  // namespace kolo::data
