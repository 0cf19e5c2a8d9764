// Where the chunks of a dataset lie in its HDF5 file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "hdf5/library.hpp"

namespace kolo::data {

// A chunk as it is stored.
struct StoredChunk {
  std::uint64_t address = 0;  // in the file
  std::uint64_t size = 0;     // in bytes
  unsigned skipped = 0;       // bit i: filter i was not applied
};

// The chunks of a dataset that have been written, by the offsets of their first elements. With it
// chunks are read without HDF5's library, which lets one thread in at a time.
class ChunkTable {
 public:
  // Requires LibraryGuard. Nothing where HDF5 does not give the addresses, or gives them too
  // slowly: up to 1.12.2 it counts from the first chunk for each of them. `dimensions`: of the
  // dataset.
  static std::optional<ChunkTable> make(hid_t file, hid_t dataset, std::size_t dimensions);

  // Null: the chunk was never written.
  const StoredChunk* find(const std::vector<std::size_t>& offset) const;

 private:
  std::map<std::vector<std::size_t>, StoredChunk> chunks_;
};

}  // namespace kolo::data
