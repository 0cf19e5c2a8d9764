// The output of `kolo data info` and `kolo data verify`.
#pragma once

#include <iosfwd>
#include <string>

namespace kolo::tools {

// Prints the arrays of a file or folder: shape, dtype, layout, filters, bytes and checksum. Returns
// 0; throws DataError if the file cannot be read.
int data_info(const std::string& path, std::ostream& out);

// Reads all of a file or folder and prints the checksum of each array. Returns 0, or 1 if something
// cannot be read or does not match the checksum that is stored beside it.
int data_verify(const std::string& path, std::ostream& out);

}  // namespace kolo::tools
