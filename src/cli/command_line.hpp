// A command's own options, and the program that comes after them.
#pragma once

#include <boost/program_options/options_description.hpp>
#include <boost/program_options/variables_map.hpp>
#include <string>
#include <vector>

namespace kolo::cli {

struct CommandLine {
  boost::program_options::variables_map values;
  std::vector<std::string> program;  // with its arguments, as they were written
};

// Everything from the first word that is no option belongs to the program; a -- in front of it is
// left out. Options are spelled out, as scripts should. -np is --np. Throws UsageError, which
// begins with the command ("kolo run").
CommandLine parse_command_line(const std::string& command,
                               const boost::program_options::options_description& table,
                               const std::vector<std::string>& words);

}  // namespace kolo::cli
