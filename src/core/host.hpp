#pragma once

#include <string>

namespace kolo {

// Of this computer, for files that people read.
std::string host_name();

}  // namespace kolo
