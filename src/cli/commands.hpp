// The subcommands. Each takes the words after its name and returns kolo's exit code. main() shows a
// UsageError.
#pragma once

#include <boost/program_options/options_description.hpp>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace kolo::cli {

using Arguments = std::vector<std::string>;

int run_command(const Arguments& arguments);
int doctor_command(const Arguments& arguments);
int slurm_command(const Arguments& arguments);
int bench_command(const Arguments& arguments);
int checkpoint_command(const Arguments& arguments);
int data_command(const Arguments& arguments);
int trace_command(const Arguments& arguments);
int dump_command(const Arguments& arguments);
int help_command(const Arguments& arguments);

struct Command {
  std::string name;
  std::string summary;
  int (*run)(const Arguments&);
  // The first part of the help: "Usage: ...", an empty line, and paragraphs.
  std::function<std::string()> intro;
  // An empty function if the intro describes the options.
  std::function<boost::program_options::options_description()> options;
  // For the man page: exit codes with their conditions; command lines with their effects.
  std::vector<std::pair<std::string, std::string>> exit_status = {};
  std::vector<std::pair<std::string, std::string>> examples = {};
  // Whether a program with its own arguments comes after the options.
  bool has_program = false;
};
// The one table of commands: `kolo` dispatches by it, and help, man pages and completion use it.
const std::vector<Command>& commands();
std::string help_of(const std::string& command);  // the command must exist

const char* version();

inline constexpr int kUsageExitCode = 2;

}  // namespace kolo::cli
