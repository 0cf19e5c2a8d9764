#include "cli/command_line.hpp"

#include <boost/program_options/errors.hpp>
#include <boost/program_options/parsers.hpp>

#include "cli/usage_error.hpp"

namespace po = boost::program_options;

namespace kolo::cli {
namespace {

using Words = std::vector<std::string>;

// Rewrites MPI's -np for Boost, which has no options of one dash and two letters.
std::string spelled_for_boost(const std::string& word) {
  if (word == "-np") return "--np";
  return word.rfind("-np=", 0) == 0 ? "-" + word : word;
}

bool takes_value(const po::options_description& table, const std::string& word) {
  if (word.find('=') != std::string::npos) return false;  // the value is in the same word
  const bool is_long = word.rfind("--", 0) == 0;
  if (!is_long && word.size() > 2) return false;  // -n4
  const std::string name = is_long ? word.substr(2) : word.substr(0, 2);
  const po::option_description* option = table.find_nothrow(name, false);
  return option != nullptr && option->semantic()->max_tokens() > 0;
}

}  // namespace

CommandLine parse_command_line(const std::string& command, const po::options_description& table,
                               const Words& words) {
  Words own;
  auto word = words.begin();
  while (word != words.end() && word->size() > 1 && word->front() == '-' && *word != "--") {
    own.push_back(spelled_for_boost(*word));
    ++word;
    if (takes_value(table, own.back()) && word != words.end()) own.push_back(*word++);
  }
  CommandLine line;
  try {
    constexpr int kStyle =
        po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
    po::store(po::command_line_parser(own).options(table).style(kStyle).run(), line.values);
  } catch (const po::error& error) {
    throw UsageError(command + ": " + error.what() + "; see " + command + " --help");
  }
  if (word != words.end() && *word == "--") ++word;
  line.program.assign(word, words.end());
  return line;
}

}  // namespace kolo::cli
