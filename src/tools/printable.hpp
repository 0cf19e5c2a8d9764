// Makes text from files safe for a terminal.
#pragma once

#include <string>

namespace kolo::tools {

// Returns the text with control characters as "\x1b": a name from a damaged or strange file must
// neither begin a line nor control the terminal. Characters in `kept` stay.
std::string printable(const std::string& text, const std::string& kept = "");

}  // namespace kolo::tools
