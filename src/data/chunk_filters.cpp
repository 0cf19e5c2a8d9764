#include "data/chunk_filters.hpp"

#include <zlib.h>

#include <cstring>
#include <new>
#include <string>

#include "kolo/error.h"

namespace kolo::data {
namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr std::size_t kChecksumBytes = 4;

Bytes inflated(const Bytes& stored, std::size_t size) {
  Bytes result(size);
  uLongf got = size;
  uLong taken = stored.size();
  const int code = uncompress2(result.data(), &got, stored.data(), &taken);
  if (code == Z_MEM_ERROR) throw std::bad_alloc();
  if (code != Z_OK || got != size || taken != stored.size())
    throw DataError("its compressed data are damaged");
  return result;
}

// Byte j of element i is stored at j * elements + i. Bytes beyond the last whole element come last,
// unchanged.
Bytes unshuffled(const Bytes& stored, std::size_t element_size) {
  const std::size_t elements = stored.size() / element_size;
  if (element_size < 2 || elements < 2) return stored;
  Bytes result(stored.size());
  for (std::size_t j = 0; j < element_size; ++j) {
    const std::uint8_t* const from = stored.data() + j * elements;
    std::uint8_t* const to = result.data() + j;
    for (std::size_t i = 0; i < elements; ++i) to[i * element_size] = from[i];
  }
  const std::size_t whole = elements * element_size;
  std::memcpy(result.data() + whole, stored.data() + whole, stored.size() - whole);
  return result;
}

// Fletcher's checksum over big-endian 16-bit words (J. Fletcher, IEEE Trans. Comm. 30, 1982). An
// odd last byte is the upper half of a word.
std::uint32_t fletcher32(const std::uint8_t* data, std::size_t size) {
  constexpr std::uint64_t kModulus = 65535;
  constexpr std::size_t kWordsUnreduced = 4096;  // their sums fit into 64 bits
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  std::size_t at = 0;
  while (at < size) {
    for (std::size_t i = 0; i < kWordsUnreduced && at < size; ++i, at += 2) {
      const unsigned second = at + 1 < size ? data[at + 1] : 0U;
      low += (unsigned{data[at]} << 8U) | second;
      high += low;
    }
    low %= kModulus;
    high %= kModulus;
  }
  return static_cast<std::uint32_t>((high << 16U) | low);
}

// HDF5 folds its sums instead of dividing, so 65535 may stand for 0.
bool same_sums(std::uint32_t left, std::uint32_t right) {
  const auto same = [](std::uint32_t a, std::uint32_t b) { return a % 65535 == b % 65535; };
  return same(left >> 16U, right >> 16U) && same(left & 0xFFFFU, right & 0xFFFFU);
}

Bytes without_checksum(Bytes stored) {
  if (stored.size() < kChecksumBytes) throw DataError("it is too short for its checksum");
  const std::size_t size = stored.size() - kChecksumBytes;
  const std::uint8_t* const sum = stored.data() + size;
  const std::uint32_t expected =
      sum[0] | (unsigned{sum[1]} << 8U) | (unsigned{sum[2]} << 16U) | (unsigned{sum[3]} << 24U);
  if (!same_sums(fletcher32(stored.data(), size), expected))
    throw DataError("its checksum is not that of its data");
  stored.resize(size);
  return stored;
}

}  // namespace

std::vector<std::uint8_t> undo_filters(std::vector<std::uint8_t> stored,
                                       const std::vector<ChunkFilter>& filters, unsigned skipped,
                                       std::size_t element_size, std::size_t size) {
  const auto applied = [&](std::size_t i) { return (skipped >> i & 1U) == 0; };
  // The expected size before each filter was applied. A checksum adds bytes, a shuffle does not.
  // After deflate the size is unknown, and not needed.
  std::vector<std::size_t> before;
  std::size_t now = size;
  for (std::size_t i = 0; i < filters.size(); ++i) {
    before.push_back(now);
    if (applied(i) && filters[i] == ChunkFilter::kFletcher32) now += kChecksumBytes;
  }
  for (std::size_t i = filters.size(); i-- > 0;) {
    if (!applied(i)) continue;
    switch (filters[i]) {
      case ChunkFilter::kDeflate:
        stored = inflated(stored, before[i]);
        break;
      case ChunkFilter::kShuffle:
        stored = unshuffled(stored, element_size);
        break;
      case ChunkFilter::kFletcher32:
        stored = without_checksum(std::move(stored));
        break;
    }
  }
  if (stored.size() != size) {
    throw DataError("it has " + std::to_string(stored.size()) + " bytes instead of " +
                    std::to_string(size));
  }
  return stored;
}

}  // namespace kolo::data
