// Locates the chunks of a dataset in its HDF5 file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "hdf5/library.hpp"

namespace kolo::data {

// A chunk as stored in the file.
struct StoredChunk {
  std::uint64_t address = 0;  // in the file
  std::uint64_t size = 0;     // in bytes
  unsigned skipped = 0;       // bit i: filter i was not applied
};

// The written chunks of a dataset, by the offsets of their first elements. The table allows reading
// chunks without HDF5's library, which admits one thread at a time.
class ChunkTable {
 public:
  // Requires LibraryGuard. Returns nothing if HDF5 does not provide the addresses, or only too
  // slowly: up to 1.12.2 it counts from the first chunk for each address. `dimensions`: of the
  // dataset.
  static std::optional<ChunkTable> make(hid_t file, hid_t dataset, std::size_t dimensions);

  // Returns null if the chunk was never written.
  const StoredChunk* find(const std::vector<std::size_t>& offset) const;

 private:
  std::map<std::vector<std::size_t>, StoredChunk> chunks_;
};

}  // namespace kolo::data
