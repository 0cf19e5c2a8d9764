// The filters of HDF5 chunks, undone without HDF5's library, so that many threads can do it at
// once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kolo::data {

enum class ChunkFilter : std::uint8_t { kDeflate, kShuffle, kFletcher32 };

// Returns the `size` elements' bytes of a chunk that was read as `stored`.
//
// filters: in the order in which they were applied; bit i of `skipped` says that filter i was not.
// element_size: in bytes, for the shuffle. The formats are those of the HDF5 File Format
// Specification 3.0, section IV.A.2.l, and of RFC 1950 for deflate.
//
// Throws DataError with the reason, without the file's name, if `stored` cannot be such a chunk.
std::vector<std::uint8_t> undo_filters(std::vector<std::uint8_t> stored,
                                       const std::vector<ChunkFilter>& filters, unsigned skipped,
                                       std::size_t element_size, std::size_t size);

}  // namespace kolo::data
