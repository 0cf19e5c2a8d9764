#include "tools/data/pieces.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <numeric>

namespace kolo::tools {

std::uint64_t for_each_piece(const data::Array& array, std::size_t unit,
                             const std::function<void(const RowPiece&)>& use) {
  constexpr std::size_t kPieceBytes = std::size_t{8} << 20U;
  const data::ArrayForm& form = array.form();
  const std::size_t unit_bytes = std::max<std::size_t>(1, unit * form.row_bytes());
  const std::size_t rows_at_once = std::max<std::size_t>(1, kPieceBytes / unit_bytes) * unit;
  XXH3_state_t sum;
  XXH3_64bits_reset(&sum);
  std::vector<std::size_t> rows;
  std::vector<std::uint8_t> bytes;
  const std::size_t count = form.row_bytes() > 0 ? form.rows() : 0;
  for (std::size_t first = 0; first < count; first += rows.size()) {
    rows.resize(std::min(rows_at_once, count - first));
    std::iota(rows.begin(), rows.end(), first);
    bytes.resize(rows.size() * form.row_bytes());
    array.read(rows, bytes.data());
    XXH3_64bits_update(&sum, bytes.data(), bytes.size());
    use({first, rows.size(), bytes});
  }
  return XXH3_64bits_digest(&sum);
}

}  // namespace kolo::tools
