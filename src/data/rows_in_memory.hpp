// Rows of an array that is small enough to be kept in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "data/row_reader.hpp"

namespace kolo::data {

// Reads the whole array at the first use. Labels are such arrays: to read each of a batch's labels
// from the file takes as long as to read an image.
class RowsInMemory : public RowReader {
 public:
  // source: reads the array, which has `rows` rows of `row_bytes` bytes.
  RowsInMemory(std::unique_ptr<RowReader> source, std::size_t rows, std::size_t row_bytes)
      : source_(std::move(source)), rows_(rows), row_bytes_(row_bytes) {}

  void read(const std::vector<std::size_t>& rows, std::uint8_t* to) override;

 private:
  // If the source throws, the next call reads it again.
  void read_all();

  std::unique_ptr<RowReader> source_;  // null after read_all()
  const std::size_t rows_;
  const std::size_t row_bytes_;
  std::once_flag is_read_;
  std::vector<std::uint8_t> bytes_;  // constant after read_all()
};

}  // namespace kolo::data
