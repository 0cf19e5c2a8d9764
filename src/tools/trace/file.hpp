// Reads timelines from a folder: one file per rank, perhaps cut off because a process was killed.
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
  std::string program;  // empty: unknown
  std::string cores;    // that it may use, as "0-3,8"; empty: unknown
};

// Calls `take` with each line of a file that is an event, without the separators. `take` finds out
// whether it is JSON. Returns whether the last event is cut off. Throws FileError. Throws
// DataError, with the file's name and the line, for a line that is not an object or has zero bytes,
// and for what `take` throws (DataError, or JSON's exceptions).
bool for_each_event(const std::string& path, const std::function<void(const std::string&)>& take);

struct RankTrace {
  std::string path;
  bool has_begin = false;  // otherwise the file has no header
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

// Reads all of every file. Throws FileError, and DataError for a file that is not a timeline.
TraceRun read_run(const std::string& folder);

// Finds a number behind a key, in an event that this project has written: outside of names, no
// quote follows a backslash. Returns false if the key is missing, or has no number.
bool find_number(const std::string& line, const char* key, double& number, std::size_t& begin,
                 std::size_t& end);

}  // namespace kolo::tools
