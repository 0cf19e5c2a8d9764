// The output of `kolo data info` and `kolo data verify`.
#pragma once

#include <iosfwd>
#include <string>

#include "tools/data/input.hpp"

namespace kolo::tools {

// Prints the arrays of a file or folder: shape, dtype, layout, filters, bytes and checksum. Returns
// 0; throws DataError if the file cannot be read. `choice`: its delimiter.
int data_info(const std::string& path, const Choice& choice, std::ostream& out);

// Reads all of a file or folder and prints the checksum of each array. Returns 0, or 1 if something
// cannot be read or does not match the checksum that is stored beside it.
int data_verify(const std::string& path, const Choice& choice, std::ostream& out);

}  // namespace kolo::tools
