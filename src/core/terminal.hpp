// Fits lines to a terminal.
#pragma once

#include <cstddef>
#include <string>

namespace kolo {

// Returns the current width of the terminal at a descriptor, or 0 if it is no terminal or its width
// is not known.
std::size_t terminal_columns(int descriptor);

// Returns at most the first `columns` characters of a text. Does not split a UTF-8 character.
std::string first_columns(const std::string& text, std::size_t columns);

}  // namespace kolo
