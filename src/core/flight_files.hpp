// Names of the flight recorder's files, for those that write them, find them and remove them.
#pragma once

#include <sys/types.h>

#include <string>

namespace kolo {

// The folder in a temporary folder that has the records of a user's jobs.
inline std::string flight_folder_name(uid_t user) {
  return "kolo-flight-" + std::to_string(user);
}

// A rank's record is "flight-rank-N.json".
inline constexpr char kFlightPrefix[] = "flight-rank-";

}  // namespace kolo
