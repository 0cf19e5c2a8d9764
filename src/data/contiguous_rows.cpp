#include "data/contiguous_rows.hpp"

#include <algorithm>
#include <numeric>

namespace kolo::data {

void ContiguousRows::read(const std::vector<std::size_t>& rows, std::uint8_t* to) {
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t left, std::size_t right) { return rows[left] < rows[right]; });
  std::vector<iovec> parts;
  for (std::size_t i = 0; i < order.size();) {
    const std::size_t first = rows[order[i]];
    parts.clear();
    std::size_t next = first;
    for (; i < order.size() && rows[order[i]] == next; ++i, ++next) {
      std::uint8_t* const place = to + order[i] * row_bytes_;
      const bool follows =
          !parts.empty() &&
          static_cast<std::uint8_t*>(parts.back().iov_base) + parts.back().iov_len == place;
      if (follows) {
        parts.back().iov_len += row_bytes_;
      } else {
        parts.push_back({place, row_bytes_});
      }
    }
    file_->read(offset_ + first * row_bytes_, parts);
  }
}

}  // namespace kolo::data
