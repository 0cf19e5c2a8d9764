// Timelines as they lie in a folder: one file a rank, maybe cut off where a process was killed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "timeline/clock_fit.hpp"

namespace kolo::tools {

// The header of a rank's file.
struct TraceHeader {
  int rank = 0;
  int size = 1;
  std::string host;
  std::int64_t run = 0;
  std::int64_t shift = 0;  // nanoseconds; see timeline::Origin
  std::int64_t bucket_bytes = 0;
  std::string program;  // empty: not known
  std::string cores;    // that it may use, as "0-3,8"; empty: not known
};

// Calls `take` with each line of a file that is an event, without what separates them; whether it
// is JSON `take` finds out. Whether the last one is cut off. Throws FileError, and DataError, with
// the file's name and the line, for a line that is no object or has zero bytes, and for what `take`
// throws (DataError, or JSON's exceptions).
bool for_each_event(const std::string& path, const std::function<void(const std::string&)>& take);

struct RankTrace {
  std::string path;
  bool has_begin = false;  // else there is nothing
  TraceHeader header;
  bool cut_off = false;
  bool complete = false;  // the timeline was ended, not killed
  std::int64_t lost = 0;  // events that the rank had no room for
  std::vector<timeline::ClockEvent> clock;
};

// The newest run that has files in the folder.
struct TraceRun {
  std::map<int, RankTrace> ranks;
  std::vector<int> missing;                // ranks without a file, or with one of these:
  std::vector<std::string> without_begin;  // files that end before a rank's header
  std::vector<std::string> of_other_runs;  // files that were left out
};

// Reads all of every file. Throws FileError, and DataError for what is no timeline.
TraceRun read_run(const std::string& folder);

// A number behind a key, of an event that this project has written: outside of names a quote comes
// after no backslash. Nothing if it is not there or no number.
bool find_number(const std::string& line, const char* key, double& number, std::size_t& begin,
                 std::size_t& end);

}  // namespace kolo::tools
