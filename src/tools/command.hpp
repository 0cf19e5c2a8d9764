// Common parts of the programs that `kolo` starts.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>

namespace kolo::tools {

inline constexpr int kUsageError = 2;

struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Returns the program's exit code: that of `command`, or kUsageError after an exception. Shows the
// exception after `name`, with `usage` if the command line was wrong.
int run_command(const std::string& name, const std::string& usage,
                const std::function<int()>& command);

}  // namespace kolo::tools
