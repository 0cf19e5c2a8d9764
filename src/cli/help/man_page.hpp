// Man pages and completion, made from the table of commands: pure functions.
#pragma once

#include <string>
#include <vector>

#include "cli/commands.hpp"

namespace kolo::cli {

// Returns kolo(1), which lists all commands.
std::string man_page_of_kolo(const std::vector<Command>& commands, const std::string& version);
// Returns kolo-NAME(1).
std::string man_page(const Command& command, const std::string& version);

// Returns the completion for bash, and for zsh with its bashcompinit.
std::string bash_completion(const std::vector<Command>& commands);

}  // namespace kolo::cli
