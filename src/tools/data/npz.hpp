// NumPy's files of several arrays (.npz): ZIP archives of .npy files.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/array.hpp"

namespace kolo::tools {

// Returns the names of the arrays, in the order of the file. Throws DataError if the file is not an
// .npz file, or if this program was built without libzip.
std::vector<std::string> arrays_in_npz(const std::string& path);

// Reads an array into memory. Throws UnsupportedArrayError for an array that kolo does not read,
// and DataError otherwise. For an unknown name, the error lists the names in the file.
std::unique_ptr<data::Array> read_npz(const std::string& path, const std::string& name);

}  // namespace kolo::tools
