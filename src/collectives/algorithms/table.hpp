// Table that chooses the algorithm of an allreduce over messages by number of ranks and size, and
// its text form.
//
//   table = "# kolo allreduce table, version 1" { comment } group { group }
//   group = "ranks " RANKS { comment } row { comment | row }
//   row = BYTES " " ALGORITHM
//   comment = "#" anything | nothing
//
// Each item takes a line, which ends with LF or CR LF; the last line may have no line end. RANKS: 2
// to 1048576, each number once. BYTES: 0 to 2^40; 0 in a group's first row, then rising. ALGORITHM:
// a name that name_of() returns. At most 1 MiB in total, not counting a final LF.
// docs/configuration.md has an example.
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

// Chooses `algorithm` from `bytes` bytes on.
struct AllreduceRow {
  std::size_t bytes = 0;
  AllreduceAlgorithm algorithm = AllreduceAlgorithm::kRecursiveDoubling;
  bool operator==(const AllreduceRow&) const = default;
};

struct AllreduceTable {
  // Rows by number of ranks. Each list is not empty, begins at 0 bytes, and rises in bytes.
  using Groups = std::map<int, std::vector<AllreduceRow>>;
  Groups groups = built_in();

  // For any number of ranks: recursive doubling below 32 KiB, a ring from there on.
  static Groups built_in();

  // Chooses by the rows for this number of ranks. Without such rows, uses those for the nearest
  // number by ratio; of two equally near numbers, the smaller.
  AllreduceAlgorithm choose(int ranks, std::size_t bytes) const;

  bool operator==(const AllreduceTable&) const = default;
};

constexpr std::size_t kLongestAllreduceTable = 1 << 20;

// Parses a table. An error names the wrong line, why it is wrong and what is expected, and leaves
// `table` as it was.
Status parse_allreduce_table(std::string_view text, AllreduceTable& table);

// Returns the text that parse_allreduce_table() reads.
std::string write_allreduce_table(const AllreduceTable& table);

}  // namespace kolo
