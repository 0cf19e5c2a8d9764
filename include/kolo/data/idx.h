// Reader of IDX files, the format in which MNIST comes. docs/idx-format.md describes the format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace kolo::data {

// The element types of the format; the values are the codes in the file.
enum class IdxType : std::uint8_t {
  kUint8 = 0x08,
  kInt8 = 0x09,
  kInt16 = 0x0B,
  kInt32 = 0x0C,
  kFloat32 = 0x0D,
  kFloat64 = 0x0E,
};

std::size_t size_of(IdxType dtype);  // bytes of one element
const char* name_of(IdxType dtype);  // "uint8"

// An array of any rank from 1 to 255.
struct IdxArray {
  IdxType dtype = IdxType::kUint8;  // of the elements
  std::vector<std::int64_t> shape;  // a size may be 0, then the array is empty
  std::vector<std::uint8_t> bytes;  // the elements in row-major order, in the host's byte order
};

// Reads an IDX file, plain or gzip (told apart by their first bytes, not by the name; gzip of
// several members is fine). The array's size is checked against the data before memory is taken for
// it, so neither a lying header nor a decompression bomb takes more memory than the data that are
// there.
//
// Throws DataError with path, reason and remedy when the file is missing, unreadable, no regular
// file, no IDX file, truncated, too long or damaged. Not collective; safe from any thread.
IdxArray read_idx(const std::string& path);

// The same for a file that is already in memory: size bytes at data. Messages call it name.
IdxArray parse_idx(const void* data, std::size_t size, const std::string& name);

}  // namespace kolo::data
