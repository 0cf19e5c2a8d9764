// Suggestions that could make a job faster, from its timelines.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/trace/activity.hpp"
#include "tools/trace/analysis.hpp"

namespace kolo::tools {

// A speed that `kolo bench allreduce` has measured on a machine.
struct MeasuredSpeed {
  std::string who;  // its contender and where tensors lay: "kolo, arena"
  double bytes = 0;
  double gigabytes = 0;  // a second
};

struct Measured {
  std::string machine;
  std::string date;
  std::vector<MeasuredSpeed> speeds;  // by who and bytes
};

struct Finding {
  double cost = 0;    // microseconds of a step, about; the largest comes first
  std::string title;  // a line
  std::string text;
};

// From the file that `kolo bench allreduce --json` wrote: kolo's, and what memory allows. Throws
// FileError, DataError; also where nothing was measured with so many ranks.
Measured read_measured(const std::string& path, int ranks);

std::vector<Finding> find_causes(const RunActivity& run, const Analysis& analysis,
                                 const Measured& measured);

// "0-3,8" as numbers; empty for what is none.
std::vector<int> parse_core_list(const std::string& text);

// For people: "1.5 ms", "12.0 MiB".
std::string time_text(double microseconds);
std::string bytes_text(double bytes);

}  // namespace kolo::tools
