// Text that goes into JSON (RFC 8259).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace kolo {

// The bytes of the UTF-8 character at `at`, 1 to 4; 0 if there is none (RFC 3629).
std::size_t utf8_length(std::string_view text, std::size_t at);

// Adds the text in quotes, with escapes; what is no UTF-8 becomes U+FFFD.
void append_json_string(std::string& json, std::string_view text);
std::string json_string(std::string_view text);

}  // namespace kolo
