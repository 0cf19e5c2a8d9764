// What the programs that `kolo` starts have in common.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>

namespace kolo::tools {

inline constexpr int kUsageError = 2;

struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The program's exit code: that of `command`, or kUsageError after an exception, which is shown
// behind `name`; with how the program is used where that was the mistake.
int run_command(const std::string& name, const std::string& usage,
                const std::function<int()>& command);

}  // namespace kolo::tools
