// Undoes the filters of HDF5 chunks without HDF5's library, so that many threads can do it at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kolo::data {

enum class ChunkFilter : std::uint8_t { kDeflate, kShuffle, kFletcher32 };

// Returns a chunk's `size` bytes of elements. `stored`: its bytes in the file.
//
// filters: in the order in which they were applied; bit i of `skipped` means that filter i was not.
// element_size: in bytes, for the shuffle. The formats are those of the HDF5 File Format
// Specification 3.0, section IV.A.2.l, and of RFC 1950 for deflate.
//
// Throws DataError with the reason, without the file's name, if `stored` is not a valid chunk.
std::vector<std::uint8_t> undo_filters(std::vector<std::uint8_t> stored,
                                       const std::vector<ChunkFilter>& filters, unsigned skipped,
                                       std::size_t element_size, std::size_t size);

}  // namespace kolo::data
