// Plans which rank writes what, and which bytes the ranks exchange before writing. Every rank
// derives the same plan from the same table and boxes, without communication.
//
// Two-phase collective writing (del Rosario, Bordawekar, Choudhary 1993; Thakur, Gropp, Lusk 1999):
// one rank writes a piece of the file, whichever ranks have the values.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/box.hpp"
#include "checkpoint/pieces.hpp"
#include "checkpoint/table.hpp"

namespace kolo::checkpoint {

// For each tensor of the table, the ranks' parts, by rank. An empty list: every rank has all of it.
using Boxes = std::vector<std::vector<Box>>;
// For each tensor of the table, whether rank 0 must write it, because the ranks' values may differ.
using RankZeros = std::vector<bool>;

// Throws InvalidArgumentError, which names the tensor and the ranks, if parts are not within the
// tensor, overlap, or do not cover it.
void check_boxes(const Table& table, const Boxes& boxes);

class WritePlan {
 public:
  // `all_write`: shares the work out among the ranks; otherwise rank 0 writes everything. The table
  // must have its offsets. Rank 0 also writes the checksums.
  WritePlan(const Table& table, const Boxes& boxes, const RankZeros& rank_zeros, bool all_write,
            int ranks, std::uint64_t checksums_offset);

  const Pieces& pieces() const { return pieces_; }
  int writer(const Piece& piece) const { return writers_[piece.number]; }
  // Returns a rank's pieces in file order.
  std::vector<Piece> written_by(int rank) const;
  // Whether a rank writes any piece of a tensor.
  bool writes(int rank, std::size_t tensor) const;

  // The part of a rank's box that lies in one piece, in bytes.
  struct Transfer {
    Piece piece;
    int to = 0;  // the rank that writes the piece
    std::uint64_t in_piece = 0;
    std::uint64_t in_box = 0;
    std::uint64_t bytes = 0;
  };
  // Visits everything that rank `from` has of tensors that are spread over the ranks. Sender and
  // writer visit the transfers between them in the same order.
  void for_each_transfer(int from, const std::function<void(const Transfer&)>& take) const;

 private:
  std::set<std::uint64_t> pages_of_rank_zero(std::uint64_t checksums_offset) const;
  void choose_writers(const RankZeros& rank_zeros, int ranks, std::uint64_t checksums_offset);
  int rank_with(std::size_t tensor, std::uint64_t byte) const;

  const Table& table_;  // both outlive the plan
  const Boxes& boxes_;
  const Pieces pieces_;
  std::vector<int> writers_;  // by piece
};

}  // namespace kolo::checkpoint
