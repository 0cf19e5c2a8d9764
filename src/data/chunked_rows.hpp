// Reads rows of an array that is stored in chunks, which may be compressed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "data/chunk_cache.hpp"
#include "data/chunk_filters.hpp"
#include "data/row_reader.hpp"

namespace kolo::data {

// The layout of a chunked array. All extents are at least 1, except shape[0].
struct ChunkGrid {
  std::vector<std::size_t> shape;  // of the array, in elements
  std::vector<std::size_t> chunk;  // of a chunk; chunks at the array's end are stored whole
  std::size_t element_size = 0;    // in bytes

  std::size_t chunk_bytes() const;
  std::size_t chunks_along(std::size_t dimension) const;
  // Returns the number of chunks that a row touches.
  std::size_t chunks_of_row() const;
  // Returns the offset of the first element of chunk k among those that hold the rows
  // [block * chunk[0], (block + 1) * chunk[0]).
  std::vector<std::size_t> offset(std::size_t block, std::size_t k) const;
  // Copies chunk k's part of a row to its place in the row at `to`.
  void copy_row(const std::uint8_t* chunk_data, std::size_t row, std::size_t k,
                std::uint8_t* to) const;
};

class ChunkedRows : public RowReader {
 public:
  // A chunk as stored, and the skipped filters (bit i for filter i).
  using Stored = std::pair<std::vector<std::uint8_t>, unsigned>;
  // Reads a chunk by the offset of its first element. Returns no bytes if it was never written.
  using ReadChunk = std::function<Stored(const std::vector<std::size_t>& offset)>;

  // fill: the element in place of those that were never written. what: names the array in errors.
  ChunkedRows(ChunkGrid grid, std::vector<ChunkFilter> filters, std::vector<std::uint8_t> fill,
              ReadChunk read_chunk, std::string what, std::size_t cache_bytes);

  void read(const std::vector<std::size_t>& rows, std::uint8_t* to) override;

 private:
  std::vector<std::uint8_t> load(std::size_t block, std::size_t k) const;

  const ChunkGrid grid_;
  const std::vector<ChunkFilter> filters_;
  const std::vector<std::uint8_t> fill_;
  const ReadChunk read_chunk_;
  const std::string what_;
  ChunkCache cache_;
};

}  // namespace kolo::data
