// The part of a checkpoint that is HDF5's: a skeleton in memory that says what there is and where
// the data will lie, without the data. kolo writes the data itself, to the places that HDF5 gave
// them, so any number of ranks write one file with any HDF5 library, and what is read back is
// checked before HDF5 looks at it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/table.hpp"

namespace kolo::checkpoint {

inline constexpr int kDeepestGroup = 16;  // groups in groups

struct Metadata {
  std::vector<unsigned char> bytes;  // from the file's beginning; the first 4,096 are zeros
  std::uint64_t file_size = 0;
  std::uint64_t checksums_offset = 0;
};

// Sets the offsets of the table's tensors. `checksums`: how many there will be. `expected_bytes`:
// about how much metadata there will be (of the last checkpoint, say), which halves the work; 0:
// not known. The same table gives the same bytes, but for what `expected_bytes` leaves free.
// Throws InvalidArgumentError for names that HDF5 cannot have, names that come twice or are
// another's folder, more than kDeepestGroup groups in each other, lists and texts that are too
// long, more than 32 dimensions.
Metadata make_metadata(Table& table, std::uint64_t checksums, std::uint64_t expected_bytes = 0);

// The table of the metadata, which must have been checked against their checksum: HDF5's parser is
// not made for damage. Throws DataError, which names `path`, for what is no checkpoint.
Table parse_metadata(const std::vector<unsigned char>& bytes, std::uint64_t file_size,
                     const std::string& path);

}  // namespace kolo::checkpoint
