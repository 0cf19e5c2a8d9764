// libFuzzer's entry to the filters of HDF5 chunks; built with clang when KOLO_FUZZ is ON. Only a
// DataError, or as many bytes as were asked for, may come out of a chunk, whatever is in it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "data/chunk_filters.hpp"
#include "kolo/error.h"

namespace {

constexpr std::size_t kHeader = 4;

}  // namespace

// The first bytes choose the filters, what was skipped, the element's size and the chunk's.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using kolo::data::ChunkFilter;
  if (size < kHeader) return 0;
  std::vector<ChunkFilter> filters;
  for (unsigned chosen = data[0]; chosen > 0; chosen >>= 2U) {
    if ((chosen & 3U) != 0) filters.push_back(static_cast<ChunkFilter>((chosen & 3U) - 1));
  }
  const std::size_t element_size = 1 + data[2] % 16;
  const std::size_t chunk_size = element_size * (1 + data[3]);
  try {
    const auto chunk = kolo::data::undo_filters({data + kHeader, data + size}, filters, data[1],
                                                element_size, chunk_size);
    if (chunk.size() != chunk_size) std::abort();
  } catch (const kolo::DataError&) {
    return 0;
  }
  return 0;
}
