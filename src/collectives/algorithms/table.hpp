// Which algorithm an allreduce over messages takes: a table by number of ranks and size, and its
// text form.
//
//   table = "# kolo allreduce table, version 1" { comment } group { group }
//   group = "ranks " RANKS { comment } row { comment | row }
//   row = BYTES " " ALGORITHM
//   comment = "#" anything | nothing
//
// One to a line, which ends with LF or CR LF, the last one also without. RANKS: 2 to 1048576, each
// once. BYTES: 0 to 2^40, 0 in a group's first row, rising after it. ALGORITHM: a name of
// name_of(). At most 1 MiB in all, but for the last LF. docs/configuration.md has an example.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.hpp"

namespace kolo {

enum class AllreduceAlgorithm : std::uint8_t { kRecursiveDoubling, kHalvingDoubling, kRing, kTree };

// "recursive-doubling", "halving-doubling", "ring", "tree".
const char* name_of(AllreduceAlgorithm algorithm);

// From so many bytes on this algorithm.
struct AllreduceRow {
  std::size_t bytes = 0;
  AllreduceAlgorithm algorithm = AllreduceAlgorithm::kRecursiveDoubling;
  bool operator==(const AllreduceRow&) const = default;
};

struct AllreduceTable {
  // Rows by number of ranks: not empty, the first from 0 bytes on, bytes rising.
  using Groups = std::map<int, std::vector<AllreduceRow>>;
  Groups groups = built_in();

  // For any number of ranks: recursive doubling below 32 KiB, a ring from there on.
  static Groups built_in();

  // By the rows of this number of ranks; where it has none, of the nearest number that has, by
  // ratio, and of two as near the smaller.
  AllreduceAlgorithm choose(int ranks, std::size_t bytes) const;

  bool operator==(const AllreduceTable&) const = default;
};

constexpr std::size_t kLongestAllreduceTable = 1 << 20;

// An error says which line is wrong, why and what is expected, and leaves `table` as it was.
Status parse_allreduce_table(std::string_view text, AllreduceTable& table);

// Returns the text that parse_allreduce_table() reads.
std::string write_allreduce_table(const AllreduceTable& table);

}  // namespace kolo
