// `kolo checkpoint ls`, `info`, `verify` and `diff`. Each writes to `out` and returns an exit code.
// All throw FileError if there is nothing to inspect.
#pragma once

#include <ostream>
#include <string>

namespace kolo::tools {

// Prints a line for each checkpoint in a folder, whatever its name.
int list(const std::string& folder, std::ostream& out);
// Prints what a file says about itself, its values and its tensors.
int info(const std::string& path, std::ostream& out);
// Reads all of a file, or of every file in a folder. Returns 1 if something is damaged or of a
// newer version, and 2 if a file in a folder cannot be read; that file is named.
int verify(const std::string& path, std::ostream& out);
// Returns 0 if the tensors and values are the same. Otherwise prints what differs and returns 1.
// Ignores what files say about themselves (step, time, ranks).
int diff(const std::string& left, const std::string& right, std::ostream& out);

}  // namespace kolo::tools
