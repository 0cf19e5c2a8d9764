#pragma once

#include <string_view>

namespace kolo {

// Writes all of it, however often the system takes less. 0, or the system's error.
int write_all(int descriptor, std::string_view text);

}  // namespace kolo
