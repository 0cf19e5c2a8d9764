// The flight recorder as a file: a line of JSON that describes the process, then one for each
// operation, the oldest first.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/status.hpp"
#include "timeline/event.hpp"

namespace kolo::timeline {

// The process of a flight record, and the folder of the file.
struct FlightOrigin {
  int rank = 0;
  int size = 1;
  std::string host;
  std::int64_t process = 0;  // the kernel's number
  std::int64_t job = 0;      // the same on all ranks, different for each job
  std::string folder;
};

// Returns the job's folder, in a folder of this user among the temporary files.
std::string default_flight_folder(std::int64_t job);

// The program's state, and the reason for writing the record.
struct FlightNote {
  std::string reason;
  std::int64_t step = 0;
  Nanoseconds frozen = 0;  // time for which the process did not run, until just now
};
std::string flight_text(const FlightOrigin& origin, const FlightNote& note,
                        const std::vector<OperationEvent>& operations);

// Writes folder/flight-rank-N.json, whose name is returned in `path`. An existing file is replaced
// once the new one is complete.
Status write_flight(const FlightOrigin& origin, const std::string& text, std::string& path);

const char* name_of(State state);  // "submitted"

}  // namespace kolo::timeline
