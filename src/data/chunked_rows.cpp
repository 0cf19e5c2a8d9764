#include "data/chunked_rows.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "data/data_error.hpp"

namespace kolo::data {
namespace {

std::size_t product(const std::vector<std::size_t>& extents, std::size_t first) {
  std::size_t result = 1;
  for (std::size_t i = first; i < extents.size(); ++i) result *= extents[i];
  return result;
}

}  // namespace

std::size_t ChunkGrid::chunk_bytes() const {
  return product(chunk, 0) * element_size;
}

std::size_t ChunkGrid::chunks_along(std::size_t dimension) const {
  return (shape[dimension] + chunk[dimension] - 1) / chunk[dimension];
}

std::size_t ChunkGrid::chunks_of_row() const {
  std::size_t count = 1;
  for (std::size_t i = 1; i < shape.size(); ++i) count *= chunks_along(i);
  return count;
}

std::vector<std::size_t> ChunkGrid::offset(std::size_t block, std::size_t k) const {
  std::vector<std::size_t> result(shape.size());
  for (std::size_t i = shape.size() - 1; i > 0; --i) {
    result[i] = k % chunks_along(i) * chunk[i];
    k /= chunks_along(i);
  }
  result[0] = block * chunk[0];
  return result;
}

void ChunkGrid::copy_row(const std::uint8_t* chunk_data, std::size_t row, std::size_t k,
                         std::uint8_t* to) const {
  const std::size_t dimensions = shape.size();
  const std::vector<std::size_t> begin = offset(row / chunk[0], k);
  chunk_data += row % chunk[0] * product(chunk, 1) * element_size;
  // The part of the chunk that is inside the array. Lines of the last dimension are contiguous in
  // both.
  std::vector<std::size_t> inside(dimensions, 1);
  for (std::size_t i = 1; i < dimensions; ++i) inside[i] = std::min(chunk[i], shape[i] - begin[i]);
  // Trailing dimensions that the chunk covers completely make lines longer.
  std::size_t line = element_size;
  std::size_t outer = dimensions;
  while (outer > 1) {
    line *= inside[outer - 1];
    --outer;
    if (inside[outer] != chunk[outer] || chunk[outer] != shape[outer]) break;
  }
  std::vector<std::size_t> at(dimensions, 0);  // within the chunk; for dimensions 1 to outer - 1
  while (true) {
    std::size_t from = 0;
    std::size_t place = 0;
    for (std::size_t i = 1; i < dimensions; ++i) {
      from = from * chunk[i] + at[i];
      place = place * shape[i] + begin[i] + at[i];
    }
    std::memcpy(to + place * element_size, chunk_data + from * element_size, line);
    std::size_t i = outer;
    while (i > 1 && ++at[i - 1] == inside[i - 1]) at[--i] = 0;
    if (i <= 1) return;
  }
}

ChunkedRows::ChunkedRows(ChunkGrid grid, std::vector<ChunkFilter> filters,
                         std::vector<std::uint8_t> fill, ReadChunk read_chunk, std::string what,
                         std::size_t cache_bytes)
    : grid_(std::move(grid)),
      filters_(std::move(filters)),
      fill_(std::move(fill)),
      read_chunk_(std::move(read_chunk)),
      what_(std::move(what)),
      cache_(cache_bytes) {}

std::vector<std::uint8_t> ChunkedRows::load(std::size_t block, std::size_t k) const {
  Stored stored = read_chunk_(grid_.offset(block, k));
  const std::size_t size = grid_.chunk_bytes();
  if (stored.first.empty()) {
    std::vector<std::uint8_t> filled(size);
    for (std::size_t i = 0; i < size; i += fill_.size())
      std::memcpy(filled.data() + i, fill_.data(), fill_.size());
    return filled;
  }
  try {
    return undo_filters(std::move(stored.first), filters_, stored.second, grid_.element_size, size);
  } catch (const DataError& error) {
    fail(what_, "has a chunk that cannot be read (" + std::string(error.what()) + ")", kGetAgain);
  }
}

// Visits rows in file order, so that each chunk is requested once even if the cache is small.
void ChunkedRows::read(const std::vector<std::size_t>& rows, std::uint8_t* to) {
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t left, std::size_t right) { return rows[left] < rows[right]; });
  const std::size_t row_bytes = product(grid_.shape, 1) * grid_.element_size;
  const std::size_t chunks = grid_.chunks_of_row();
  for (std::size_t first = 0; first < order.size();) {
    const std::size_t block = rows[order[first]] / grid_.chunk[0];
    std::size_t end = first;
    while (end < order.size() && rows[order[end]] / grid_.chunk[0] == block) ++end;
    for (std::size_t k = 0; k < chunks; ++k) {
      const ChunkCache::Chunk chunk =
          cache_.get(block * chunks + k, [&] { return load(block, k); });
      for (std::size_t i = first; i < end; ++i)
        grid_.copy_row(chunk->data(), rows[order[i]], k, to + order[i] * row_bytes);
    }
    first = end;
  }
}

}  // namespace kolo::data
