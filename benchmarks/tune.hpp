// Which algorithm an allreduce over messages is to take: each is measured by itself, over kolo's
// transport, and the quickest of each size goes into a table for KOLO_ALLREDUCE_TABLE.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "benchmarks/group.hpp"
#include "benchmarks/harness.hpp"
#include "collectives/algorithms/table.hpp"
#include "collectives/transport.hpp"

namespace kolo::bench {

// Where kolo sends messages: between nodes, where there are several, each rank to the one with its
// place on the other nodes, all at the same time; else between all ranks. `mine` is a group of
// ranks in the world that this one is in, or empty; the groups are equally large.
struct MessageGroup {
  std::vector<int> mine;
  int size = 0;
};
// nodes: by rank, which node it is on.
MessageGroup find_message_group(const std::vector<int>& nodes, int rank);

// 2, 4, 8 ... and the size itself, up to it.
std::vector<int> sizes_of_groups(int largest);

// One for each algorithm. `transport` is of this rank's group, or null: then it takes no part.
Contenders algorithm_contenders(Ranks& ranks, Transport* transport, std::size_t elements);

// The medians of one size, by algorithm.
struct Timing {
  std::size_t bytes = 0;
  std::vector<double> microseconds;
};

// Rows from what was measured, by size. An algorithm stays where the quickest is less than 5 %
// quicker.
std::vector<AllreduceRow> rows_of(const std::vector<Timing>& timings);

// The table's text with comment lines after its first one.
std::string table_with_comments(const AllreduceTable& table, const std::vector<std::string>& lines);

}  // namespace kolo::bench
