#pragma once

#include <string>
#include <string_view>

namespace kolo {

// Writes all of it, however often the system takes less. 0, or the system's error.
int write_all(int descriptor, std::string_view text);

// The first line of a file, one of /proc or /sys, say; empty if it cannot be read.
std::string first_line(const std::string& path);

}  // namespace kolo
