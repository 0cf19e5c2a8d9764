// Rows of an array that lies in chunks, which may be compressed.
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

// Where the elements of an array lie. All extents are 1 or more, but shape[0].
struct ChunkGrid {
  std::vector<std::size_t> shape;  // of the array, in elements
  std::vector<std::size_t> chunk;  // of a chunk; at the array's end chunks are stored whole
  std::size_t element_size = 0;    // in bytes

  std::size_t chunk_bytes() const;
  std::size_t chunks_along(std::size_t dimension) const;
  // The number of chunks that have a part of one row.
  std::size_t chunks_of_row() const;
  // Chunk k of those that have a part of the rows [block * chunk[0], (block + 1) * chunk[0]): the
  // offset of its first element.
  std::vector<std::size_t> offset(std::size_t block, std::size_t k) const;
  // Copies what chunk k of its block has of a row, to its place in the row at `to`.
  void copy_row(const std::uint8_t* chunk_data, std::size_t row, std::size_t k,
                std::uint8_t* to) const;
};

class ChunkedRows : public RowReader {
 public:
  // A chunk as it is stored, and which filters were skipped (bit i for filter i).
  using Stored = std::pair<std::vector<std::uint8_t>, unsigned>;
  // Reads a chunk by the offset of its first element. Nothing at all: it was never written.
  using ReadChunk = std::function<Stored(const std::vector<std::size_t>& offset)>;

  // fill: the element that stands for what was never written. what: names the array in errors.
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
