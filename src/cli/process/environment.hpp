// The environment as a value: pure functions take a Lookup, only system_environment() reads the
// process's own.
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

// Every variable of this process, in the order of the environment.
Variables system_variables();

// A whole decimal number; nothing for an empty text, trailing characters or overflow.
std::optional<long> parse_integer(const std::string& text);

// The threads that a text of OMP_NUM_THREADS means: a number from 1 on, or a list of such numbers
// for nested regions, of which the first is meant. Nothing where OpenMP would refuse the text.
std::optional<int> parse_threads(const std::string& text);

}  // namespace kolo::cli
