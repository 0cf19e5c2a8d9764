// What of a line fits on a terminal.
#pragma once

#include <cstddef>
#include <string>

namespace kolo {

// How wide the terminal behind a descriptor is now; 0: it is none, or does not tell.
std::size_t terminal_columns(int descriptor);

// The beginning of a text, of so many characters at most. No character of UTF-8 is cut in two.
std::string first_columns(const std::string& text, std::size_t columns);

}  // namespace kolo
