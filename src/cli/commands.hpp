// The subcommands. Each takes the words after its name and returns kolo's exit code; UsageError is
// shown by main().
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
  // The first part of its help: "Usage: ...", an empty line, and paragraphs.
  std::function<std::string()> intro;
  // Empty function: the intro describes them.
  std::function<boost::program_options::options_description()> options;
  // For the man page: exit codes and when; command lines and what they do.
  std::vector<std::pair<std::string, std::string>> exit_status = {};
  std::vector<std::pair<std::string, std::string>> examples = {};
  // Whether a program with words of its own comes after the options.
  bool has_program = false;
};
// The one table: what `kolo` dispatches, help, man pages and completion come from it.
const std::vector<Command>& commands();
std::string help_of(const std::string& command);  // of one that is there

const char* version();

inline constexpr int kUsageExitCode = 2;

}  // namespace kolo::cli
