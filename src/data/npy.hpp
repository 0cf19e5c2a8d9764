// Parses NumPy's files of one array (.npy).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/element_type.hpp"
#include "kolo/error.h"

namespace kolo::data {

// Describes the array in a file.
struct NpyArray {
  ElementType type = ElementType::kFloat32;
  std::vector<std::int64_t> shape;
  std::uint64_t offset = 0;  // of the first element, in bytes; elements are row-major
};

// Thrown for an array of a kind that kolo does not read; the rest of the file is unchecked.
class UnsupportedArrayError : public DataError {
 public:
  using DataError::DataError;
};

// Parses the beginning of a file: at least its whole header, or the whole file. Throws DataError,
// which names `path`, if it is not an .npy file, or if the file of `file_size` bytes is shorter
// than its array. Throws UnsupportedArrayError for elements that tensors do not have, for
// big-endian elements, and for Fortran order.
// Format: NEP 1, https://numpy.org/neps/nep-0001-npy-format.html, versions 1 to 3.
NpyArray parse_npy(const std::vector<std::uint8_t>& beginning, std::uint64_t file_size,
                   const std::string& path);

// Limit for the size of a header, in bytes.
inline constexpr std::size_t kLongestNpyHeader = std::size_t{1} << 16;

}  // namespace kolo::data
