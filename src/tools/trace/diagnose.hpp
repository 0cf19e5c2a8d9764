// Finds out, from the flight records of a job's ranks, which ranks wait for which, and for what.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace kolo::tools {

struct FlightOperation {
  enum class State : std::uint8_t { kSubmitted, kAgreed, kStarted, kDone, kFailed };
  std::string name;
  std::string operation;  // "allreduce"
  State state = State::kSubmitted;
  bool wanted = false;
  std::int64_t step = 0;
  std::int64_t bytes = 0;
  int process_set = 0;
  std::int64_t bucket = 0;
  std::int64_t members = 0;
  std::int64_t sequence = -1;  // -1: not agreed upon
  // Nanoseconds on that rank's clock; 0: not yet.
  std::int64_t submitted = 0;
  std::int64_t started = 0;
  std::int64_t ended = 0;
};

// The flight record of one rank.
struct Flight {
  int rank = 0;
  int size = 1;
  std::string host;
  std::int64_t process = 0;
  std::int64_t job = 0;
  std::string reason;
  std::int64_t step = 0;
  std::int64_t now = 0;  // its clock
  std::int64_t unix_time = 0;
  std::int64_t frozen = 0;                  // time for which it had not run
  std::vector<FlightOperation> operations;  // the oldest first

  // Whether it was written because the job's operations have failed.
  bool has_failed() const { return reason.rfind("failure: ", 0) == 0; }
};

using Flights = std::map<int, Flight>;  // by rank

// Reads the text of one file. Throws DataError, which names `path`.
Flight parse_flight(const std::string& text, const std::string& path);

// Reads the newest job that has files (flight-rank-N.json) in the folder. Throws FileError and
// DataError.
Flights read_flights(const std::string& folder);

struct Diagnosis {
  bool diverged = false;  // a rank waits for another, or its record is missing or old
  std::string text;       // lines
};
Diagnosis diagnose(const Flights& flights);

}  // namespace kolo::tools
