// What a benchmark reports: a table for people, and the same rows as JSON.
//
// The JSON has one form for every benchmark:
//   {"benchmark": "allreduce", "command": "...", "date": "2025-01-31T12:00:00Z", "machine": "...",
//    "rows": [{"work": "allreduce/67108864/private/2", "contender": "kolo", "median_us": 1.5,
//              "min_us": 1.25, "p90_us": 2.0, "samples": 20, "bytes": 67108864,
//              "placement": "near; by rank bound to cores 0 1"}, ...]}
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "benchmarks/harness.hpp"
#include "benchmarks/statistics.hpp"

namespace kolo::bench {

struct Row {
  std::string work;  // what was done: OPERATION/BYTES/arena|private/RANKS, gradients/MODEL/RANKS
  std::string contender;  // who did it: kolo, mpi, ...
  Summary microseconds;
  std::int64_t bytes = 0;  // of one rank's values
  std::string placement;   // where the work ran, as far as is known; empty: where the ranks did
  Distance distance = Distance::kUnknown;  // of these samples; known, it stands before placement
};

struct Report {
  std::string benchmark;
  std::string command;
  std::string date;
  std::string machine;
  std::vector<Row> rows;
};

std::string to_json(const Report& report);

// The table's head, and lines for the rows of one work. The last column is a row's median over that
// of the contender mpi at the same distance of cores ("-" without one): above 1 is slower.
std::string table_head();
std::string table_lines(const std::vector<Row>& rows);

}  // namespace kolo::bench
