// Cuts each tensor's bytes into pieces of 1 MiB (the last one may be shorter). Each piece has a
// checksum, is written by one rank, and is read as a whole. Pieces are numbered in file order, so
// their numbers follow from the table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "checkpoint/table.hpp"

namespace kolo::checkpoint {

inline constexpr std::uint64_t kPieceBytes = std::uint64_t{1} << 20;

struct Piece {
  std::size_t number = 0;
  std::size_t tensor = 0;   // index in the table
  std::uint64_t begin = 0;  // in bytes within the tensor
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;  // in the file
};

// Returns the number of pieces. Needs no offsets.
std::uint64_t count_pieces(const Table& table);

// The pieces of a table that has its offsets.
class Pieces {
 public:
  explicit Pieces(const Table& table);

  std::size_t count() const { return count_; }
  // Returns the number of one tensor's pieces, which have consecutive numbers.
  std::size_t count(std::size_t tensor) const;
  Piece piece(std::size_t tensor, std::size_t index) const;
  Piece containing(std::size_t tensor, std::uint64_t byte) const {
    return piece(tensor, static_cast<std::size_t>(byte / kPieceBytes));
  }
  // The table's tensors in file order.
  const std::vector<std::size_t>& order() const { return order_; }

 private:
  struct Place {
    std::uint64_t bytes, offset;
    std::size_t first;  // number of the first piece
  };
  std::vector<std::size_t> order_;
  std::vector<Place> places_;
  std::size_t count_ = 0;
};

}  // namespace kolo::checkpoint
