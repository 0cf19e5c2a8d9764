#pragma once

#include <string>
#include <string_view>

namespace kolo {

// Writes all of the text, with several calls if the system takes less. Returns 0 or the system's
// error.
int write_all(int descriptor, std::string_view text);

// Returns the first line of a file, for example of /proc or /sys; empty if it cannot be read.
std::string first_line(const std::string& path);

}  // namespace kolo
