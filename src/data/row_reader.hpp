// Reads rows of an array in a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kolo::data {

// Reads the rows of an array. Each file layout has its own class (hdf5_array.cpp chooses).
class RowReader {
 public:
  RowReader() = default;
  RowReader(const RowReader&) = delete;
  RowReader& operator=(const RowReader&) = delete;
  virtual ~RowReader() = default;
  // Reads the rows with these numbers into `to`, one after the other. Safe from several threads at
  // once. Throws DataError.
  virtual void read(const std::vector<std::size_t>& rows, std::uint8_t* to) = 0;
};

}  // namespace kolo::data
