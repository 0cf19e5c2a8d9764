#pragma once

#include <string>
#include <vector>

namespace kolo {

// Returns the name of this computer, for files that people read.
std::string host_name();

// Returns the name of the running program, without its folder.
std::string program_name();

// Returns an ID that differs from computer to computer, and from one start of a computer to the
// next. "" if Linux does not provide it.
std::string boot_id();

// Returns an ID that is the same for all processes of a computer (or of a container with a network
// of its own) since its start, and different elsewhere. Empty if it is not known. It contains no
// blanks and no commas.
std::string machine_id();

// Returns the cores that the calling thread, or another process, may use, in rising order; none if
// they are not known.
std::vector<int> usable_cores(int process = 0);
// Returns a list such as "0-3,8", as Linux writes it.
std::string core_list(const std::vector<int>& cores);

}  // namespace kolo
