#include "cli/run/run_options.hpp"

#include <boost/program_options.hpp>
#include <fstream>
#include <sstream>
#include <utility>

#include "cli/command_line.hpp"
#include "cli/usage_error.hpp"

namespace po = boost::program_options;

namespace kolo::cli {
namespace {

using Words = std::vector<std::string>;

constexpr long kMostLoaders = 1024;

void read_config_file(const std::string& name, const po::options_description& table,
                      po::variables_map& values) {
  std::ifstream file(name);
  if (!file) throw UsageError("--config-file: cannot read '" + name + "'");
  try {
    po::store(po::parse_config_file(file, table), values);
  } catch (const po::error& error) {
    throw UsageError(name + ": " + error.what());
  }
}

std::string metrics_port(const po::variables_map& values) {
  const int port = values["metrics-port"].as<int>();
  if (port < 1 || port > 65535) throw UsageError("--metrics-port must be from 1 to 65535");
  return std::to_string(port);
}

RunOptions from_values(const po::variables_map& values) {
  RunOptions options;
  const auto text = [&](const char* name) {
    return values.count(name) != 0 ? values[name].as<std::string>() : std::string();
  };
  options.help = values["help"].as<bool>();
  const auto number = [&](const char* name) {
    return values.count(name) != 0 ? std::optional(values[name].as<long>()) : std::nullopt;
  };
  options.size = number("np");
  options.gpus = number("gpus");
  options.gpus_per_host = number("gpus-per-host");
  options.host_list = text("host");
  options.hostfile = text("hostfile");
  options.verbose = values["verbose"].as<bool>();
  options.timestamp = values["timestamp"].as<bool>();
  options.no_prefix = values["no-prefix"].as<bool>();
  options.tag_output = values["tag-output"].as<bool>();
  options.output_dir = text("output-dir");
  options.max_restarts = values["max-restarts"].as<long>();
  options.allow_run_as_root = values["allow-run-as-root"].as<bool>();
  options.dry_run = values["dry-run"].as<bool>();
  options.threads_per_rank = values["threads-per-rank"].as<int>();
  options.bind_to = text("bind-to");
  if (values.count("env") != 0) options.variables = values["env"].as<Words>();
  if (values.count("metrics-port") != 0)
    options.variables.push_back("KOLO_METRICS_PORT=" + metrics_port(values));
  if (values.count("metrics-address") != 0)
    options.variables.push_back("KOLO_METRICS_ADDRESS=" + text("metrics-address"));
  if (values.count("timeline") != 0)
    options.variables.push_back("KOLO_TIMELINE=" + text("timeline"));
  options.mpirun = text("mpirun");
  options.mpi_args = text("mpi-args");
  options.timeout_seconds = values["timeout"].as<double>();
  options.stop_seconds = values["stop-timeout"].as<double>();
  options.cpus = number("cpus");
  options.units = number("units");
  options.spool = text("spool");
  return options;
}

void check_loaders(const RunOptions& options) {
  if (options.cpus && (*options.cpus < 1 || *options.cpus > kMostLoaders)) {
    throw UsageError("--cpus " + std::to_string(*options.cpus) + ": must be from 1 to " +
                     std::to_string(kMostLoaders) + " loader processes");
  }
  if (options.units && *options.units < 1)
    throw UsageError("--units " + std::to_string(*options.units) + ": must be 1 or more samples");
  if (options.units && !options.cpus)
    throw UsageError("--units is for --cpus: loader processes prepare these samples");
  if (!options.spool.empty() && !options.units)
    throw UsageError("--spool is for --units: the samples that are prepared go there");
}

void check_values(const RunOptions& options) {
  if (options.help) return;
  if (!options.host_list.empty() && !options.hostfile.empty()) {
    throw UsageError("give --host or --hostfile, not both");
  }
  if (options.threads_per_rank < 0) throw UsageError("--threads-per-rank must be at least 0");
  constexpr double kMostSeconds = 1e9;
  if (!(options.timeout_seconds >= 0 && options.timeout_seconds <= kMostSeconds)) {
    throw UsageError("--timeout must be a number of seconds (1e9 at most), or 0 for none");
  }
  if (!(options.stop_seconds >= 0 && options.stop_seconds <= kMostSeconds)) {
    throw UsageError("--stop-timeout must be a number of seconds (1e9 at most), or 0 for none");
  }
  if (options.no_prefix && options.tag_output) {
    throw UsageError("--no-prefix and --tag-output exclude each other");
  }
  check_loaders(options);
  if (options.max_restarts < 0) throw UsageError("--max-restarts must be at least 0");
  if (options.program.empty()) {
    throw UsageError("no program given; usage: kolo run -np N [options] program [arguments]");
  }
}

}  // namespace

po::options_description run_option_table() {
  po::options_description table("Options");
  auto add = table.add_options();
  add("help,h", po::bool_switch(), "show this help");
  add("np,n", po::value<long>()->value_name("N"),
      "number of ranks; also -np N (default: all slots of the hosts, all tasks of the batch job)");
  add("gpus", po::value<long>()->value_name("N"),
      "instead of -np: start one rank for each of N GPUs, on as many hosts as they need");
  add("gpus-per-host", po::value<long>()->value_name("G"),
      "GPUs that --gpus uses on each host (default: 8, or the GPUs that Slurm gave)");
  add("cpus", po::value<long>()->value_name("C"),
      "start C loader processes of the program besides its ranks, on hosts without ranks if there "
      "are any; see docs/delivery.md");
  add("units", po::value<long>()->value_name("N"),
      "loader processes prepare N samples of each loader before the ranks are started");
  add("spool", po::value<std::string>()->value_name("DIR"),
      "folder for the file of prepared samples that do not fit into half of the memory");
  add("host,H", po::value<std::string>()->value_name("HOST:SLOTS,..."),
      "hosts to run on, and how many ranks each takes (1 if not given); default: the hosts of the "
      "batch job (Slurm, PBS, LSF), otherwise this host");
  add("hostfile", po::value<std::string>()->value_name("FILE"),
      "file with the hosts, a line 'HOST slots=N' for each");
  add("env,x", po::value<Words>()->composing()->value_name("NAME[=VALUE]"),
      "pass an environment variable to the ranks; may be repeated");
  add("threads-per-rank", po::value<int>()->default_value(0)->value_name("T"),
      "OMP_NUM_THREADS and MKL_NUM_THREADS of each rank, unless you have set them (0: cores of the "
      "node / ranks on it)");
  add("bind-to", po::value<std::string>()->value_name("core|socket|numa|none"),
      "bind ranks as mpirun does (default: each rank to cores of its own, if this host has "
      "enough)");
  add("no-prefix", po::bool_switch(), "do not prefix lines with the rank");
  add("tag-output", po::bool_switch(), "begin each line with its rank, host and stream");
  add("output-dir", po::value<std::string>()->value_name("DIR"),
      "also write each rank's output to a file of its own in this folder");
  add("timestamp", po::bool_switch(), "begin each line with the time");
  add("metrics-port", po::value<int>()->value_name("PORT"),
      "rank 0 serves the metrics of all ranks at /metrics of this port, for Prometheus");
  add("metrics-address", po::value<std::string>()->value_name("ADDRESS"),
      "address at which rank 0 serves the metrics (default: 127.0.0.1)");
  add("timeline", po::value<std::string>()->value_name("DIR"),
      "each rank writes a timeline of what it does into this folder; see kolo trace");
  add("timeout", po::value<double>()->default_value(0, "0")->value_name("SECONDS"),
      "end the job after this time, with exit code 124 (0: never)");
  add("max-restarts", po::value<long>()->default_value(0)->value_name("N"),
      "start the job again if it fails, at most N times; ranks find the number of restarts in "
      "KOLO_RESTART_COUNT");
  add("stop-timeout", po::value<double>()->default_value(120, "120")->value_name("SECONDS"),
      "time that ranks have to save and end after SIGTERM, which they receive as SIGUSR1 (0: end "
      "them at once)");
  add("allow-run-as-root", po::bool_switch(), "allow root to start a job");
  add("mpirun", po::value<std::string>()->value_name("PATH"),
      "the launcher (default: KOLO_MPIRUN, the one kolo was built with, or mpirun on PATH)");
  add("mpi-args", po::value<std::string>()->value_name("\"ARGS\""),
      "more arguments for the launcher");
  add("config-file", po::value<std::string>()->value_name("FILE"),
      "read options from an INI file, such as 'np = 4'; the command line takes precedence");
  add("dry-run", po::bool_switch(), "print the command and do nothing");
  add("verbose", po::bool_switch(),
      "show the command, where each rank runs, and all of the launcher's output");
  return table;
}

std::string run_intro() {
  return "Usage: kolo run -np N [-H host:slots,... | --hostfile FILE] [options] program "
         "[arguments]\n\n"
         "Starts a program on N ranks through the MPI's own launcher. Options after the program "
         "are the program's.\n\n";
}

RunOptions parse_run(const Words& arguments) {
  const po::options_description table = run_option_table();
  CommandLine line = parse_command_line("kolo run", table, arguments);
  if (line.values.count("config-file") != 0) {
    read_config_file(line.values["config-file"].as<std::string>(), table, line.values);
  }
  RunOptions options = from_values(line.values);
  options.program = std::move(line.program);
  check_values(options);
  return options;
}

Words split_words(const std::string& text) {
  Words words;
  std::string word;
  bool in_word = false;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool blank = c == ' ' || c == '\t' || c == '\n';
    if (quote == 0 && blank) {
      if (in_word) words.push_back(std::exchange(word, {}));
      in_word = false;
      continue;
    }
    in_word = true;
    if (c == '\\' && quote != '\'' && i + 1 < text.size()) {
      word += text[++i];
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else if (quote != 0 && c == quote) {
      quote = 0;
    } else {
      word += c;
    }
  }
  if (quote != 0) throw UsageError("'" + text + "': a quote is not closed");
  if (in_word) words.push_back(word);
  return words;
}

}  // namespace kolo::cli
