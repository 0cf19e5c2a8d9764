// Reads an array piece by piece.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "data/array.hpp"

namespace kolo::tools {

// Some rows of an array.
struct RowPiece {
  std::size_t first = 0;
  std::size_t count = 0;
  const std::vector<std::uint8_t>& bytes;
};

// Reads all rows in order, and passes them on in pieces of about 8 MiB. Each piece but the last has
// a multiple of `unit` rows. Returns the XXH3 (64 bits) of all bytes.
std::uint64_t for_each_piece(const data::Array& array, std::size_t unit,
                             const std::function<void(const RowPiece&)>& use);

}  // namespace kolo::tools
