// Keeps the rows of a small array in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/thread_annotations.hpp"
#include "data/row_reader.hpp"

namespace kolo::data {

// Reads the whole array at the first use. Serves labels: reading each of a batch's labels from the
// file takes as long as reading an image.
class RowsInMemory : public RowReader {
 public:
  // source: reads the array, which has `rows` rows of `row_bytes` bytes.
  RowsInMemory(std::unique_ptr<RowReader> source, std::size_t rows, std::size_t row_bytes)
      : rows_(rows), row_bytes_(row_bytes), source_(std::move(source)) {}

  // If the source throws, the next call reads it again.
  void read(const std::vector<std::size_t>& rows, std::uint8_t* to) override KOLO_EXCLUDES(mutex_);

 private:
  using Bytes = std::vector<std::uint8_t>;

  // Returns all rows. The first call reads them; others wait for it.
  std::shared_ptr<const Bytes> all_bytes() KOLO_EXCLUDES(mutex_);

  const std::size_t rows_;
  const std::size_t row_bytes_;
  Mutex mutex_;
  std::unique_ptr<RowReader> source_ KOLO_GUARDED_BY(mutex_);  // null once everything is read
  std::shared_ptr<const Bytes> bytes_ KOLO_GUARDED_BY(mutex_);
};

}  // namespace kolo::data
