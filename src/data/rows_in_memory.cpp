#include "data/rows_in_memory.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace kolo::data {

void RowsInMemory::read_all() {
  constexpr std::size_t kRowsAtOnce = std::size_t{1} << 16;  // their numbers need memory, too
  std::vector<std::uint8_t> bytes(rows_ * row_bytes_);
  std::vector<std::size_t> numbers;
  for (std::size_t first = 0; first < rows_; first += kRowsAtOnce) {
    numbers.resize(std::min(kRowsAtOnce, rows_ - first));
    std::iota(numbers.begin(), numbers.end(), first);
    source_->read(numbers, bytes.data() + first * row_bytes_);
  }
  bytes_ = std::move(bytes);
  source_.reset();
}

void RowsInMemory::read(const std::vector<std::size_t>& rows, std::uint8_t* to) {
  std::call_once(is_read_, [this] { read_all(); });
  for (const std::size_t row : rows)
    to = std::copy_n(bytes_.data() + row * row_bytes_, row_bytes_, to);
}

}  // namespace kolo::data
