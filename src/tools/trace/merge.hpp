// Merges the timelines of all ranks into one file, on rank 0's clock.
#pragma once

#include <iosfwd>
#include <string>

namespace kolo::tools {

// Writes the newest run in the folder as one Chrome trace, and describes its parts on `notes`.
// Throws FileError and DataError.
void merge_traces(const std::string& folder, std::ostream& merged, std::ostream& notes);

}  // namespace kolo::tools
