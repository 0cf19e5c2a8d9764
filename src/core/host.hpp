#pragma once

#include <string>

namespace kolo {

// Of this computer, for files that people read.
std::string host_name();

// The cores that the calling thread may use, as "0-3,8" (Linux' cpu lists); empty if not known.
std::string core_list();

}  // namespace kolo
