#pragma once

#include <functional>
#include <optional>
#include <string>

namespace kolo {

// What a launcher tells each process that it starts for one job.
struct LaunchedSize {
  int size = 1;
  std::string variable;  // that says so
};

// From the environment, of which `get` gives a variable or nullptr: mpirun's word before srun's,
// for it may have been started in a step of srun. Nothing where no launcher is known.
std::optional<LaunchedSize> launched_size(const std::function<const char*(const char*)>& get);

}  // namespace kolo
