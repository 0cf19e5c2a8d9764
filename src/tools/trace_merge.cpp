#include "tools/trace_merge.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ostream>
#include <string>

#include "core/ranks.hpp"
#include "tools/trace_file.hpp"

namespace kolo::tools {
namespace {

// A clock that is further off than this does not tell which of two ranks came first in a step.
constexpr timeline::Nanoseconds kFarOff = 1'000'000;

std::string number(const char* form, double value) {
  char text[64];
  std::snprintf(text, sizeof text, form, value);
  return text;
}

class Aligner {
 public:
  explicit Aligner(const RankTrace& trace) : fit_(trace.clock), shift_(trace.header.shift) {
    // The file counts with the first reading.
    if (!trace.clock.empty()) first_ = static_cast<double>(trace.clock.front().offset);
  }

  // Moves the event to where it was on rank 0's clock.
  void align(std::string& line) const {
    double microseconds = 0;
    std::size_t begin = 0;
    std::size_t end = 0;
    if (!find_number(line, "ts", microseconds, begin, end)) return;
    const auto here =
        static_cast<timeline::Nanoseconds>(std::llround(microseconds * 1000)) - shift_;
    const double aligned = std::max(0.0, microseconds + (fit_.offset(here) - first_) / 1000);
    char text[64];
    const int length = std::snprintf(text, sizeof text, "%.3f", aligned);
    line.replace(begin, end - begin, text, static_cast<std::size_t>(length));
  }

  const timeline::ClockFit& fit() const { return fit_; }

 private:
  const timeline::ClockFit fit_;
  const timeline::Nanoseconds shift_;
  double first_ = 0;
};

void describe(const RankTrace& trace, const Aligner& aligner, std::ostream& notes) {
  const timeline::ClockFit& fit = aligner.fit();
  const double behind = trace.clock.empty() ? 0 : static_cast<double>(trace.clock.front().offset);
  notes << "rank " << trace.header.rank << " on " << trace.header.host << ": clock "
        << number("%.3f ms", behind / 1e6) << " behind rank 0's, drift "
        << number("%.2f ppm", fit.drift()) << ", known to "
        << number("%.1f us", static_cast<double>(fit.error()) / 1e3) << " by " << trace.clock.size()
        << " readings";
  if (fit.error() > kFarOff) notes << " (too little to order what ranks do within a step)";
  if (!trace.complete) notes << "; it was not ended, so its last 0.1 s may be missing";
  if (trace.cut_off) notes << "; its last event is cut off";
  if (trace.lost > 0) notes << "; " << trace.lost << " events were lost: its disk was too slow";
  notes << '\n';
}

}  // namespace

void merge_traces(const std::string& folder, std::ostream& merged, std::ostream& notes) {
  const TraceRun run = read_run(folder);
  merged << "[\n";
  for (const auto& [rank, trace] : run.ranks) {
    const Aligner aligner(trace);
    describe(trace, aligner, notes);
    TraceLines lines(trace.path);
    for (std::string line; lines.next(line);) {
      aligner.align(line);
      line += ",\n";
      merged << line;
    }
  }
  merged << R"({"name":"kolo_merged","ph":"M","pid":1,"args":{}})"
         << "\n]\n";
  if (!run.missing.empty())
    notes << "no timeline of " << rank_list(run.missing) << " is in the folder\n";
  for (const std::string& path : run.of_other_runs)
    notes << path << ": is of an earlier run, and was left out\n";
}

}  // namespace kolo::tools
