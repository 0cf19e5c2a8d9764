#pragma once

#include <string>

namespace kolo::cli {

// docs/horovod.md, as built into the program.
extern const char* const kHorovodPage;

// Returns the page for a terminal that is 80 columns wide.
std::string horovod_text();

}  // namespace kolo::cli
