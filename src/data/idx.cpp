// The IDX format (docs/idx-format.md); all numbers are big-endian:
//
//   file   = header data              ; nothing may follow
//   header = 00 00 type rank size{rank}
//   type   = 08 uint8 | 09 int8 | 0B int16 | 0C int32 | 0D float32 | 0E float64
//   rank   = 01 .. FF                 ; number of dimensions
//   size   = 4 bytes, unsigned        ; elements along one dimension, the slowest one first
//   data   = the product of all sizes elements, row-major
//
// The whole file may be compressed with gzip (RFC 1952), in one or several members.
#include "kolo/data/idx.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <new>
#include <stdexcept>

#include "data/byte_source.hpp"

namespace kolo::data {
namespace {

constexpr std::size_t kStartBytes = 4;  // of the header: 00 00 type rank
constexpr std::size_t kSizeBytes = 4;   // of one dimension in the header

using Start = std::array<std::uint8_t, kStartBytes>;

std::string hex(std::uint8_t value) {
  constexpr auto kDigits = "0123456789abcdef";
  return {kDigits[value >> 4], kDigits[value & 15]};
}

// Checks the start, of which `size` bytes were read. Returns the rank.
std::size_t check_start(const Start& start, std::size_t size, const std::string& name) {
  constexpr auto kMend = "give an IDX file such as train-images-idx3-ubyte";
  if (size == 0) fail(name, "is empty", kGetAgain);
  if (start[0] != 0 || (size > 1 && start[1] != 0)) {
    fail(name,
         "is not an IDX file: it begins with the byte " + hex(start[0] != 0 ? start[0] : start[1]) +
             " (hexadecimal) where IDX has 00",
         kMend);
  }
  if (size < kStartBytes) fail(name, "ends within its header", kGetAgain);
  if (size_of(static_cast<IdxType>(start[2])) == 0) {
    fail(name,
         "is not an IDX file: it has the unknown element type " + hex(start[2]) + " (hexadecimal)",
         kMend);
  }
  if (start[3] == 0) fail(name, "has 0 dimensions", kMend);
  return start[3];
}

std::vector<std::int64_t> read_shape(Source& source, std::size_t rank, const std::string& name) {
  std::array<std::uint8_t, 255 * kSizeBytes> sizes{};
  if (source.read(sizes.data(), rank * kSizeBytes) < rank * kSizeBytes) {
    fail(name, "ends within its header", kGetAgain);
  }
  std::vector<std::int64_t> shape(rank);
  for (std::size_t i = 0; i < rank; ++i) {
    for (std::size_t b = 0; b < kSizeBytes; ++b)
      shape[i] = shape[i] << 8 | sizes[i * kSizeBytes + b];
  }
  return shape;
}

std::string to_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
  }
  return text + "]";
}

// Returns the bytes that such an array takes, at most the largest difference of pointers.
std::uint64_t bytes_of(const std::vector<std::int64_t>& shape, IdxType dtype,
                       const std::string& name) {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::ptrdiff_t>::max());
  std::uint64_t bytes = size_of(dtype);
  for (const std::int64_t size : shape) {
    if (bytes > kMost / static_cast<std::uint64_t>(size)) {
      fail(name, "has the shape " + to_text(shape) + ", which no memory can hold", kGetAgain);
    }
    bytes *= static_cast<std::uint64_t>(size);
  }
  return bytes;
}

[[noreturn]] void fail_short(const std::string& name, std::uint64_t expected,
                             const IdxArray& array) {
  fail(name,
       "is too short: its header promises " + to_text(array.shape) + " elements of " +
           name_of(array.dtype) + ", " + std::to_string(expected) + " bytes, which are not there",
       kGetAgain);
}

// Memory grows only with the data that arrive, so a wrong header cannot make it grow.
void read_elements(Source& source, std::uint64_t expected, const std::string& name,
                   IdxArray& array) {
  std::vector<std::uint8_t>& bytes = array.bytes;
  while (bytes.size() < expected) {
    const std::size_t have = bytes.size();
    const std::size_t more = std::min<std::uint64_t>(expected - have, std::max(have, kChunkBytes));
    bytes.reserve(have + more);  // exactly; resize alone would take up to twice as much
    bytes.resize(have + more);
    if (source.read(bytes.data() + have, more) < more) fail_short(name, expected, array);
  }
  std::uint8_t extra = 0;
  if (source.read(&extra, 1) != 0) {
    fail(name,
         "is too long: bytes follow the " + std::to_string(expected) +
             " bytes of data that "
             "its header promises",
         kGetAgain);
  }
}

void to_host_order(IdxArray& array) {
  if constexpr (std::endian::native == std::endian::big) return;
  const auto width = static_cast<std::ptrdiff_t>(size_of(array.dtype));
  if (width == 1) return;
  for (auto at = array.bytes.begin(); at != array.bytes.end(); at += width)
    std::reverse(at, at + width);
}

// Reads an array. The first `size` bytes were already read into `start`.
IdxArray read_array(Source& source, const Start& start, std::size_t size, const std::string& name) {
  const std::size_t rank = check_start(start, size, name);
  IdxArray array;
  array.dtype = static_cast<IdxType>(start[2]);
  array.shape = read_shape(source, rank, name);
  const std::uint64_t expected = bytes_of(array.shape, array.dtype, name);
  if (expected > source.total_at_most()) fail_short(name, expected, array);
  read_elements(source, expected, name, array);
  to_host_order(array);
  return array;
}

IdxArray read_packed_or_plain(Source& stored, const std::string& name) {
  try {
    Start start{};
    std::size_t size = stored.read(start.data(), start.size());
    if (!is_gzip(start.data(), size)) return read_array(stored, start, size, name);
    GzipSource unpacked(stored, start.data(), size, name);
    size = unpacked.read(start.data(), start.size());
    return read_array(unpacked, start, size, name);
  } catch (const std::bad_alloc&) {
    fail(name, "does not fit into memory", "use a machine with more memory or a smaller file");
  } catch (const std::length_error&) {
    fail(name, "does not fit into memory", "use a machine with more memory or a smaller file");
  }
}

}  // namespace

std::size_t size_of(IdxType dtype) {
  switch (dtype) {
    case IdxType::kUint8:
    case IdxType::kInt8:
      return 1;
    case IdxType::kInt16:
      return 2;
    case IdxType::kInt32:
    case IdxType::kFloat32:
      return 4;
    case IdxType::kFloat64:
      return 8;
  }
  return 0;
}

const char* name_of(IdxType dtype) {
  switch (dtype) {
    case IdxType::kUint8:
      return "uint8";
    case IdxType::kInt8:
      return "int8";
    case IdxType::kInt16:
      return "int16";
    case IdxType::kInt32:
      return "int32";
    case IdxType::kFloat32:
      return "float32";
    case IdxType::kFloat64:
      return "float64";
  }
  return "unknown";
}

IdxArray read_idx(const std::string& path) {
  FileSource file(path);
  return read_packed_or_plain(file, path);
}

IdxArray parse_idx(const void* data, std::size_t size, const std::string& name) {
  MemorySource memory(data, size);
  return read_packed_or_plain(memory, name);
}

}  // namespace kolo::data
