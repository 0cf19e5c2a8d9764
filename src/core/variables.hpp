// Variables of the environment whose names begin like kolo's, and that nothing reads.
#pragma once

#include <string>
#include <vector>

namespace kolo {

struct UnknownVariable {
  std::string name;
  std::string meant;  // a variable whose name is much like it; empty: there is none
};

// Those among `names`. Of HOROVOD_... only names that are much like one that kolo reads: the others
// are Horovod's own.
std::vector<UnknownVariable> unknown_variables(const std::vector<std::string>& names);

// The names of this process's variables. No other thread may change the environment meanwhile.
std::vector<std::string> environment_names();

}  // namespace kolo
