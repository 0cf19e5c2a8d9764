// Removes temporary files of kolo's processes that have ended. A file is removed only if it is
// certain that it belongs to kolo and this user, and that its process has ended. Other hosts may
// share the folders. Errors are ignored, because a file that stays does no harm.
#pragma once

#include <string>

#include "cli/process/system.hpp"

namespace kolo::cli {

// Writes the file "owner" into a folder: host and boot. The file is locked for as long as the
// descriptor is open; the kernel ends the lock with the process. The result is not open if the file
// system has no locks. Such a folder is never taken for that of a dead process.
Fd claim_folder(const std::string& folder);

// Removes the folders "kolo-run-..." in `parent` whose owners ran on this host and have died. If
// the host has been rebooted since, waits for a week, because another host may have its name.
void remove_dead_sessions(const std::string& parent);

// Removes the flight records in a folder "kolo-flight-UID" that processes of this host wrote more
// than a week ago and that have ended since. Also removes the jobs' folders that become empty.
void remove_old_flight_records(const std::string& folder);

// Returns the folder for this user's flight records, if KOLO_FLIGHT_RECORDER_DIR is not set.
std::string flight_records_folder();

}  // namespace kolo::cli
