// Writes text into JSON (RFC 8259).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace kolo {

// Returns the number of bytes of the UTF-8 character at `at`, 1 to 4, or 0 if the bytes are
// not UTF-8 (RFC 3629).
std::size_t utf8_length(std::string_view text, std::size_t at);

// Appends the text in quotes, with escapes. A byte that is not UTF-8 becomes U+FFFD.
void append_json_string(std::string& json, std::string_view text);
std::string json_string(std::string_view text);

}  // namespace kolo
