// Environment variables whose names begin like kolo's, but that nothing reads.
#pragma once

#include <string>
#include <vector>

namespace kolo {

struct UnknownVariable {
  std::string name;
  std::string meant;  // a known variable with a similar name, or empty
};

// Returns the unknown variables among `names`. Of HOROVOD_... it returns only names that are
// similar to one that kolo reads: the others are Horovod's own.
std::vector<UnknownVariable> unknown_variables(const std::vector<std::string>& names);

// Returns the names of this process's variables. No other thread may change the environment
// meanwhile.
std::vector<std::string> environment_names();

}  // namespace kolo
