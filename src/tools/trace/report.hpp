// A page that shows where the time of a job's steps goes.
#pragma once

#include <iosfwd>
#include <string>

namespace kolo::tools {

struct ReportOptions {
  std::string folder;     // of timelines
  std::string bandwidth;  // what kolo bench allreduce --json wrote, or empty
};

struct ReportText {
  std::string data;   // JSON for the page's script
  std::string words;  // the same, in short lines
};

// Throws FileError and DataError.
ReportText report_text(const ReportOptions& options);

// Writes one HTML file that needs nothing else. Throws FileError if this program was built without
// the script that draws.
void write_report(const ReportText& text, std::ostream& page);

}  // namespace kolo::tools
