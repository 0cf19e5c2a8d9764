// The `kolo` command, and `kolorun`, which is `kolo run`.
#include <filesystem>
#include <iostream>

#include "cli/commands.hpp"
#include "cli/usage_error.hpp"
#include "core/standard_streams.hpp"

namespace {

using kolo::cli::Arguments;

int dispatch(const std::string& command, const Arguments& rest) {
  for (const kolo::cli::Command& known : kolo::cli::commands()) {
    if (known.name == command) return known.run(rest);
  }
  if (command == "help") return kolo::cli::help_command(rest);
  if (command == "--help" || command == "-h") return kolo::cli::help_command({});
  if (command == "--version") {
    std::cout << "kolo " << kolo::cli::version() << "\n";
    return 0;
  }
  throw kolo::cli::UsageError("unknown command or option '" + command + "'; see kolo --help");
}

int run(int argc, char** argv) {
  try {
    Arguments words(argv + std::min(argc, 1), argv + argc);
    if (argc > 0 && std::filesystem::path(argv[0]).filename() == "kolorun") {
      return kolo::cli::run_command(words);
    }
    if (words.empty()) {
      kolo::cli::help_command({});
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

}  // namespace

int main(int argc, char** argv) {
  kolo::open_standard_streams();
  return kolo::flush_standard_output("kolo", run(argc, argv));
}
