// The `kolo` command, and `kolorun`, which is `kolo run`.
#include <filesystem>
#include <iostream>
#include <map>

#include "cli/commands.hpp"
#include "cli/usage_error.hpp"

namespace {

using kolo::cli::Arguments;

int dispatch(const std::string& command, const Arguments& rest) {
  static const std::map<std::string, int (*)(const Arguments&)> kCommands = {
      {"run", kolo::cli::run_command},     {"doctor", kolo::cli::doctor_command},
      {"bench", kolo::cli::bench_command}, {"checkpoint", kolo::cli::checkpoint_command},
      {"trace", kolo::cli::trace_command}, {"dump", kolo::cli::dump_command},
      {"slurm", kolo::cli::slurm_command}, {"help", kolo::cli::help_command},
  };
  const auto found = kCommands.find(command);
  if (found != kCommands.end()) return found->second(rest);
  if (command == "--version") {
    kolo::cli::show_version();
    return 0;
  }
  if (command == "--help" || command == "-h") {
    kolo::cli::show_usage();
    return 0;
  }
  throw kolo::cli::UsageError("unknown command or option '" + command + "'; see kolo --help");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Arguments words(argv + std::min(argc, 1), argv + argc);
    if (argc > 0 && std::filesystem::path(argv[0]).filename() == "kolorun") {
      return kolo::cli::run_command(words);
    }
    if (words.empty()) {
      kolo::cli::show_usage();
      return kolo::cli::kUsageExitCode;
    }
    return dispatch(words.front(), {words.begin() + 1, words.end()});
  } catch (const kolo::cli::UsageError& error) {
    std::cerr << "kolo: " << error.what() << "\n";
    return kolo::cli::kUsageExitCode;
  } catch (const std::exception& error) {
    std::cerr << "kolo: " << error.what() << "\n";
    return 1;
  }
}
