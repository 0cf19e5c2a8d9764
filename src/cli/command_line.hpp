// Splits a command line into a command's own options and the program after them.
#pragma once

#include <boost/program_options/options_description.hpp>
#include <boost/program_options/variables_map.hpp>
#include <string>
#include <vector>

namespace kolo::cli {

struct CommandLine {
  boost::program_options::variables_map values;
  std::vector<std::string> program;  // with its arguments, unchanged
};

// Parses a command's options. Everything from the first word that is not an option belongs to the
// program; a -- before it is dropped. Options cannot be abbreviated. -np means --np. Throws
// UsageError that begins with the command ("kolo run").
CommandLine parse_command_line(const std::string& command,
                               const boost::program_options::options_description& table,
                               const std::vector<std::string>& words);

}  // namespace kolo::cli
