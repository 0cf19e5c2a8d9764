// Suggests changes that could make a job faster, from its timelines.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/trace/activity.hpp"
#include "tools/trace/analysis.hpp"

namespace kolo::tools {

// A speed that `kolo bench allreduce` has measured on a machine.
struct MeasuredSpeed {
  std::string who;  // contender and memory: "kolo, arena"
  double bytes = 0;
  double gigabytes = 0;  // per second
};

struct Measured {
  std::string machine;
  std::string date;
  std::vector<MeasuredSpeed> speeds;  // by who and bytes
};

struct Finding {
  double cost = 0;    // about, in microseconds per step; the largest comes first
  std::string title;  // a line
  std::string text;
};

// Reads the file that `kolo bench allreduce --json` wrote: kolo's speeds, and those that memory
// allows. Throws FileError and DataError, also if nothing was measured with this number of ranks.
Measured read_measured(const std::string& path, int ranks);

std::vector<Finding> find_causes(const RunActivity& run, const Analysis& analysis,
                                 const Measured& measured);

// Parses "0-3,8". Returns no numbers for another text.
std::vector<int> parse_core_list(const std::string& text);

// Formats for people: "1.5 ms", "12.0 MiB".
std::string time_text(double microseconds);
std::string bytes_text(double bytes);

}  // namespace kolo::tools
