// NumPy's files of several arrays (.npz): ZIP archives of .npy files.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/array.hpp"

namespace kolo::tools {

// The names of the arrays, in the order of the file. Throws DataError for what is no such file, and
// if this program was built without libzip.
std::vector<std::string> arrays_in_npz(const std::string& path);

// Reads an array into memory. Throws UnsupportedArrayError for an array that kolo does not read,
// and DataError otherwise; for a name that the file does not have, with the names that it has.
std::unique_ptr<data::Array> read_npz(const std::string& path, const std::string& name);

}  // namespace kolo::tools
