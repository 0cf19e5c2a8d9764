// The first 4,096 bytes of a checkpoint, which HDF5 leaves to the program (its "user block").
// Little endian, as all of the file. See docs/checkpoint-format.md.
//
//   header    = magic "KOLOCKPT", major u16, minor u16, zero u32,
//               file_size u64, metadata_end u64, checksums_offset u64, checksums_count u64,
//               metadata_checksum u64, checksums_checksum u64,
//               zeros up to byte 120, header_checksum u64 (of the 120 bytes before it),
//               zeros up to byte 4096
//   metadata  = bytes 4096 to metadata_end: all of HDF5's own, and nothing else
//   checksums = u64 for each piece: the XXH3 (64 bits) of up to 1 MiB of a dataset
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "kolo/error.h"

namespace kolo::checkpoint {

inline constexpr std::uint64_t kHeaderBytes = 4096;
inline constexpr std::uint16_t kMajor = 1;
inline constexpr std::uint16_t kMinor = 0;

// Thrown for a file whose format is newer than this kolo. The file is whole, so an older checkpoint
// must not be restored in its place.
class NewerVersionError : public DataError {
 public:
  using DataError::DataError;
};

struct Header {
  std::uint16_t major = kMajor;
  std::uint16_t minor = kMinor;
  std::uint64_t file_size = 0;
  std::uint64_t metadata_end = 0;
  std::uint64_t checksums_offset = 0;  // 0 if there are none
  std::uint64_t checksums_count = 0;
  std::uint64_t metadata_checksum = 0;
  std::uint64_t checksums_checksum = 0;
};

using HeaderBytes = std::array<unsigned char, kHeaderBytes>;
HeaderBytes encode(const Header& header);

// Decodes the header. `size`: of the whole file. Throws NewerVersionError for a newer major
// version. Throws DataError, which names `path`, if the bytes are not a header, the header is
// damaged or impossible, or the file has another size.
Header decode_header(const HeaderBytes& bytes, std::uint64_t size, const std::string& path);

// XXH3, 64 bits (https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md).
std::uint64_t checksum(const void* data, std::size_t size);

}  // namespace kolo::checkpoint
