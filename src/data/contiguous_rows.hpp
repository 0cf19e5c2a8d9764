// Reads rows that are contiguous in a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "data/data_file.hpp"
#include "data/row_reader.hpp"

namespace kolo::data {

class ContiguousRows : public RowReader {
 public:
  // Row 0 begins at `offset`, in bytes.
  ContiguousRows(std::shared_ptr<const DataFile> file, std::uint64_t offset, std::size_t row_bytes)
      : file_(std::move(file)), offset_(offset), row_bytes_(row_bytes) {}

  // Reads neighbouring rows with one system call, even if their destinations are apart.
  void read(const std::vector<std::size_t>& rows, std::uint8_t* to) override;

 private:
  const std::shared_ptr<const DataFile> file_;
  const std::uint64_t offset_;
  const std::size_t row_bytes_;
};

}  // namespace kolo::data
