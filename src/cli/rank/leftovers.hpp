// Removes temporary files of kolo's processes that have ended. A file is removed only if it is
// certain that it is kolo's and this user's, and that its process has ended; other hosts may have
// the same folders. Errors are ignored, because a file that stays does no harm.
#pragma once

#include <string>

#include "cli/process/system.hpp"

namespace kolo::cli {

// Puts the file "owner" into a folder: host and boot, and a lock that is held for as long as the
// descriptor is open, which the kernel ends with the process. Not open where the file system has no
// locks; such a folder is never taken for a dead one's.
Fd claim_folder(const std::string& folder);

// Removes the folders "kolo-run-..." in `parent` whose owners were processes of this host and have
// died. Where the computer has started anew since, after a week: another one may have its name.
void remove_dead_sessions(const std::string& parent);

// Removes the flight records in a folder "kolo-flight-UID" that processes of this host wrote more
// than a week ago and that have ended since, and the jobs' folders that are empty then.
void remove_old_flight_records(const std::string& folder);

// Where ranks of this user write flight records unless KOLO_FLIGHT_RECORDER_DIR says otherwise.
std::string flight_records_folder();

}  // namespace kolo::cli
