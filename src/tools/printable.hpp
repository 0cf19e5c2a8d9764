// Text of files on a terminal.
#pragma once

#include <string>

namespace kolo::tools {

// The text with control characters as "\x1b": a name from a damaged or a strange file must neither
// begin a line nor steer the terminal. Those in `kept` stay.
std::string printable(const std::string& text, const std::string& kept = "");

}  // namespace kolo::tools
