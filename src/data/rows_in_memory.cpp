#include "data/rows_in_memory.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace kolo::data {

std::shared_ptr<const RowsInMemory::Bytes> RowsInMemory::all_bytes() {
  constexpr std::size_t kRowsAtOnce = std::size_t{1} << 16;  // the row numbers need memory, too
  const MutexLock lock(mutex_);
  if (bytes_ != nullptr) return bytes_;
  auto bytes = std::make_shared<Bytes>(rows_ * row_bytes_);
  std::vector<std::size_t> numbers;
  for (std::size_t first = 0; first < rows_; first += kRowsAtOnce) {
    numbers.resize(std::min(kRowsAtOnce, rows_ - first));
    std::iota(numbers.begin(), numbers.end(), first);
    source_->read(numbers, bytes->data() + first * row_bytes_);
  }
  bytes_ = std::move(bytes);
  source_.reset();
  return bytes_;
}

void RowsInMemory::read(const std::vector<std::size_t>& rows, std::uint8_t* to) {
  const std::shared_ptr<const Bytes> bytes = all_bytes();
  for (const std::size_t row : rows)
    to = std::copy_n(bytes->data() + row * row_bytes_, row_bytes_, to);
}

}  // namespace kolo::data
