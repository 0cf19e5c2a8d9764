// HDF5's part of a checkpoint: a skeleton in memory that describes the contents and where the data
// will lie, without the data. kolo writes the data itself, to the places that HDF5 assigned. So any
// number of ranks can write one file with any HDF5 library, and the metadata are checked before
// HDF5 parses them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/table.hpp"

namespace kolo::checkpoint {

inline constexpr int kDeepestGroup = 16;  // nesting depth

struct Metadata {
  std::vector<unsigned char> bytes;  // from the start of the file; the first 4,096 are zeros
  std::uint64_t file_size = 0;
  std::uint64_t checksums_offset = 0;
};

// Builds the metadata, and sets the offsets of the table's tensors. `checksums`: their number.
// `expected_bytes`: the approximate size of the metadata (that of the last checkpoint, say), which
// halves the work; 0: unknown. The same table gives the same bytes, except for space that
// `expected_bytes` leaves free. Throws InvalidArgumentError for names that HDF5 cannot have, names
// that occur twice or are the folder of another one, groups nested deeper than kDeepestGroup, too
// long lists and texts, and more than 32 dimensions.
Metadata make_metadata(Table& table, std::uint64_t checksums, std::uint64_t expected_bytes = 0);

// Parses the metadata into a table. Their checksum must have been verified, because HDF5's parser
// does not withstand damaged data. Throws DataError, which names `path`, if they do not describe a
// checkpoint.
Table parse_metadata(const std::vector<unsigned char>& bytes, std::uint64_t file_size,
                     const std::string& path);

}  // namespace kolo::checkpoint
