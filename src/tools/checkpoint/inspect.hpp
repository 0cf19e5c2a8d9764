// `kolo checkpoint ls`, `info`, `verify` and `diff`. Each writes to `out` and returns an exit code.
// All throw FileError where there is nothing to look at.
#pragma once

#include <ostream>
#include <string>

namespace kolo::tools {

// A line for each checkpoint in a folder, of any name.
int list(const std::string& folder, std::ostream& out);
// What a file says of itself, its values and its tensors.
int info(const std::string& path, std::ostream& out);
// Reads everything of a file, or of all in a folder. 1 if something is damaged or of a newer
// version, 2 if one of a folder cannot be read; it is named.
int verify(const std::string& path, std::ostream& out);
// 0: the same tensors and values; 1: not, and what differs. What files say of themselves (step,
// time, ranks) does not count.
int diff(const std::string& left, const std::string& right, std::ostream& out);

}  // namespace kolo::tools
