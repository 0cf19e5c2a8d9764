// The options of `kolo run`, from the command line and a configuration file.
#pragma once

#include <boost/program_options/options_description.hpp>
#include <optional>
#include <string>
#include <vector>

namespace kolo::cli {

struct RunOptions {
  bool help = false;
  std::optional<long> size;
  std::optional<long> gpus;
  std::optional<long> gpus_per_host;
  std::string host_list;
  std::string hostfile;
  bool verbose = false;
  bool timestamp = false;
  bool no_prefix = false;
  bool tag_output = false;
  std::string output_dir;
  long max_restarts = 0;
  bool allow_run_as_root = false;
  bool dry_run = false;
  int threads_per_rank = 0;
  std::string bind_to;
  std::vector<std::string> variables;  // NAME or NAME=VALUE
  std::string mpirun;
  std::string mpi_args;
  double timeout_seconds = 0;
  double stop_seconds = 0;
  std::optional<long> cpus;  // loader processes
  std::optional<long> units;
  std::string spool;
  std::vector<std::string> program;  // with its arguments
};

boost::program_options::options_description run_option_table();
std::string run_intro();  // the text of the help before the options

// Parses the command line. A configuration file named by --config-file fills in what the command
// line leaves open. Throws UsageError.
RunOptions parse_run(const std::vector<std::string>& arguments);

// Splits like a shell: blanks separate words, quotes and backslashes keep blanks. Throws UsageError
// if a quote is not closed.
std::vector<std::string> split_words(const std::string& text);

}  // namespace kolo::cli
