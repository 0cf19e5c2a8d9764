// Timelines of all ranks in one file, on rank 0's clock.
#pragma once

#include <iosfwd>
#include <string>

namespace kolo::tools {

// Writes the newest run in the folder as one Chrome trace, and says on `notes` what it is made of.
// Throws FileError and DataError.
void merge_traces(const std::string& folder, std::ostream& merged, std::ostream& notes);

}  // namespace kolo::tools
