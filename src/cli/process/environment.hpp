// The environment as a value: pure functions take a Lookup; only system_environment() reads the
// environment of the process.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace kolo::cli {

using Lookup = std::function<std::optional<std::string>(const std::string& name)>;
using Variables = std::vector<std::pair<std::string, std::string>>;

// Reads this process's environment. Call before threads exist, or while none changes it.
Lookup system_environment();

// Returns every variable of this process, in the order of the environment.
Variables system_variables();

// Parses a whole decimal number. Returns nothing for an empty text, trailing characters or
// overflow.
std::optional<long> parse_integer(const std::string& text);

// Parses OMP_NUM_THREADS: a number from 1 on, or a list of such numbers for nested regions, of
// which the first counts. Returns nothing if OpenMP would refuse the text.
std::optional<int> parse_threads(const std::string& text);

}  // namespace kolo::cli
