// Who writes what, and which bytes ranks give each other before. Every rank makes the same plan of
// the same table and boxes, without talking.
//
// Collective writing in two phases (del Rosario, Bordawekar, Choudhary 1993; Thakur, Gropp, Lusk
// 1999): a piece of the file is written by one rank, whoever has the values.
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

// Of each tensor of the table the parts that ranks have, by rank; none: every rank has all of it.
using Boxes = std::vector<std::vector<Box>>;

// Throws InvalidArgumentError, which names the tensor and the ranks, if parts are not within the
// tensor, overlap, or leave something out.
void check_boxes(const Table& table, const Boxes& boxes);

class WritePlan {
 public:
  // `all_write`: the work is shared out among the ranks; else rank 0 writes everything. The table
  // has its offsets; rank 0 also writes the checksums.
  WritePlan(const Table& table, const Boxes& boxes, bool all_write, int ranks,
            std::uint64_t checksums_offset);

  const Pieces& pieces() const { return pieces_; }
  int writer(const Piece& piece) const { return writers_[piece.number]; }
  // In the order of the file.
  std::vector<Piece> written_by(int rank) const;
  // Whether a rank writes any piece of a tensor.
  bool writes(int rank, std::size_t tensor) const;

  // A part of a rank's box that is in one piece, in bytes.
  struct Transfer {
    Piece piece;
    int to = 0;  // who writes that piece
    std::uint64_t in_piece = 0;
    std::uint64_t in_box = 0;
    std::uint64_t bytes = 0;
  };
  // All that rank `from` has of tensors that are spread over the ranks. Those for one writer come
  // in an order that both know.
  void for_each_transfer(int from, const std::function<void(const Transfer&)>& take) const;

 private:
  std::set<std::uint64_t> pages_of_rank_zero(std::uint64_t checksums_offset) const;
  void choose_writers(int ranks, std::uint64_t checksums_offset);
  int rank_with(std::size_t tensor, std::uint64_t byte) const;

  const Table& table_;  // both outlive the plan
  const Boxes& boxes_;
  const Pieces pieces_;
  std::vector<int> writers_;  // by piece
};

}  // namespace kolo::checkpoint
