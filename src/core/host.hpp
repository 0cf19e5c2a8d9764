#pragma once

#include <string>
#include <vector>

namespace kolo {

// Of this computer, for files that people read.
std::string host_name();

// Of the program that runs, without its folder.
std::string program_name();

// What is another one each time a computer has started, and on each computer; "" where Linux does
// not tell.
std::string boot_id();

// The same for all processes of a computer (or of a container with a network of its own) since it
// has started, and another one elsewhere; empty: not known. No blanks, no commas.
std::string machine_id();

// The cores that the calling thread, or another process, may use, rising; none if they are not
// known.
std::vector<int> usable_cores(int process = 0);
// "0-3,8", as Linux writes them.
std::string core_list(const std::vector<int>& cores);

}  // namespace kolo
