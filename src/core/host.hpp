#pragma once

#include <string>
#include <vector>

namespace kolo {

// Of this computer, for files that people read.
std::string host_name();

// The cores that the calling thread may use, rising; none if they are not known.
std::vector<int> usable_cores();
// "0-3,8", as Linux writes them.
std::string core_list(const std::vector<int>& cores);

}  // namespace kolo
