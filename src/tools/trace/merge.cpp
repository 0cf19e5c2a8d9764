#include "tools/trace/merge.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>

#include "core/ranks.hpp"
#include "kolo/error.h"
#include "tools/printable.hpp"
#include "tools/trace/align.hpp"
#include "tools/trace/file.hpp"

namespace kolo::tools {
namespace {

// A clock with a larger error does not tell which of two ranks came first in a step.
constexpr Nanoseconds kFarOff = 1'000'000;

std::string number(const char* form, double value) {
  char text[64];
  std::snprintf(text, sizeof text, form, value);
  return text;
}

void replace_number(std::string& line, const char* key, std::int64_t nanoseconds) {
  double before = 0;
  std::size_t begin = 0;
  std::size_t end = 0;
  if (find_number(line, key, before, begin, end))
    line.replace(begin, end - begin, number("%.3f", static_cast<double>(nanoseconds) / 1000));
}

// Moves the event to its time on rank 0's clock. Converts begin and end alike: rounding a length by
// itself could make a span overlap the previous one by a nanosecond, and viewers leave it out then.
void align(std::string& line, const Aligner& aligner) {
  double begin = 0;
  double length = 0;
  std::size_t first = 0;
  std::size_t last = 0;
  if (!find_number(line, "ts", begin, first, last)) return;
  const bool has_length = find_number(line, "dur", length, first, last);
  constexpr double kMost = 9e15;  // fits in nanoseconds
  const auto aligned = [&](double microseconds) {
    return std::llround(std::min(aligner.aligned(microseconds), kMost) * 1000);
  };
  const std::int64_t from = aligned(begin);
  const std::int64_t to = aligned(begin + length);
  replace_number(line, "ts", from);
  if (has_length) replace_number(line, "dur", std::max(to - from, std::int64_t{0}));
}

void describe(const RankTrace& trace, const Aligner& aligner, std::ostream& notes) {
  const timeline::ClockFit& fit = aligner.fit();
  const double behind = trace.clock.empty() ? 0 : static_cast<double>(trace.clock.front().offset);
  notes << "rank " << trace.header.rank << " on " << printable(trace.header.host) << ": clock "
        << number("%.3f ms", behind / 1e6) << " behind rank 0's, drift "
        << number("%.2f ppm", fit.drift()) << ", known to "
        << number("%.1f us", static_cast<double>(fit.error()) / 1e3) << " by " << trace.clock.size()
        << " readings";
  if (fit.error() > kFarOff) notes << " (too inaccurate to order what ranks do within a step)";
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
    for_each_event(trace.path, [&](std::string line) {
      if (!nlohmann::json::accept(line)) throw DataError("is not an event");
      align(line, aligner);
      merged << line << ",\n";
    });
  }
  merged << R"({"name":"kolo_merged","ph":"M","pid":1,"args":{}})"
         << "\n]\n";
  if (!run.missing.empty())
    notes << "no timeline of " << rank_list(run.missing) << " is in the folder\n";
  for (const std::string& path : run.without_begin)
    notes << path << ": has no complete header: the process was killed, or the disk was full\n";
  for (const std::string& path : run.of_other_runs)
    notes << path << ": belongs to an earlier run, and was left out\n";
}

}  // namespace kolo::tools
