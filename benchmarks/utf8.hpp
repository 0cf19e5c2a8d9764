#pragma once

#include <cstddef>
#include <string>

namespace kolo::bench {

// The bytes of the UTF-8 character at `at`, 1 to 4; 0 if there is none (RFC 3629).
std::size_t utf8_length(const std::string& text, std::size_t at);

}  // namespace kolo::bench
