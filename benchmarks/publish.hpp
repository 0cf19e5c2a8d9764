// What a benchmark calls on every rank, and rank 0 shows.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "benchmarks/report.hpp"
#include "collectives/algorithms/table.hpp"

namespace kolo::bench {

struct Publish {
  // The rows of one work, as soon as it is measured.
  std::function<void(const std::vector<Row>& rows)> rows;
  // What else takes part, beside kolo and MPI: "torch 2.11.0". Before any rows.
  std::function<void(const std::string& library)> library;
  // What tune has found.
  std::function<void(const AllreduceTable& table)> table;
  // What is left out, and why.
  std::function<void(const std::string& text)> note;
};

}  // namespace kolo::bench
