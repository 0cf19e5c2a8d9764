// A page that shows where the time of a job's steps goes.
#pragma once

#include <iosfwd>
#include <string>

namespace kolo::tools {

struct ReportOptions {
  std::string folder;     // of timelines
  std::string bandwidth;  // what kolo bench allreduce --json wrote, or empty
};

// Writes one HTML file that needs nothing else, and on `notes` what it says. Throws FileError (also
// where this program was built without the script that draws) and DataError.
void write_report(const ReportOptions& options, std::ostream& page, std::ostream& notes);

}  // namespace kolo::tools
