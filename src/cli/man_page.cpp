#include "cli/man_page.hpp"

#include <boost/program_options/cmdline.hpp>

#include <algorithm>
#include <cctype>
#include <set>
#include <sstream>

namespace kolo::cli {
namespace {

std::string upper(const std::string& text) {
  std::string all;
  for (const char c : text) all += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return all;
}

// As troff wants text: with its backslashes and dashes escaped, and no line that looks like a
// request.
std::string troff(const std::string& text) {
  std::string all;
  bool begins = true;
  for (const char c : text) {
    if (begins && (c == '.' || c == '\'')) all += "\\&";
    if (c == '\\') {
      all += "\\e";
    } else if (c == '-') {
      all += "\\-";
    } else {
      all += c;
    }
    begins = c == '\n';
  }
  return all;
}

std::string head(const std::string& name, const std::string& summary, const std::string& version) {
  return ".TH " + upper(troff(name)) + " 1 \"\" \"kolo " + version + "\" \"kolo\"\n.SH NAME\n" +
         troff(name) + " \\- " + troff(summary) + "\n";
}

std::string as_it_stands(const std::string& text) {
  return ".nf\n" + troff(text) + ".fi\n";
}

// The first paragraph of an intro, without "Usage: " and its width; and the rest.
std::pair<std::string, std::string> split_intro(const std::string& intro) {
  const std::string usage = "Usage: ";
  const std::size_t end = std::min(intro.find("\n\n"), intro.size());
  std::istringstream lines(intro.substr(0, end));
  std::string synopsis;
  for (std::string line; std::getline(lines, line);) {
    const bool is_indented =
        line.rfind(usage, 0) == 0 || line.rfind(std::string(usage.size(), ' '), 0) == 0;
    synopsis += (is_indented ? line.substr(usage.size()) : line) + "\n";
  }
  return {synopsis, end + 2 <= intro.size() ? intro.substr(end + 2) : std::string()};
}

std::string option_paragraphs(const boost::program_options::options_description& options) {
  std::string text;
  for (const auto& option : options.options()) {
    std::string names = "\\-\\-" + troff(option->long_name());
    const std::string short_name = option->canonical_display_name(
        boost::program_options::command_line_style::allow_dash_for_short);
    if (short_name.size() == 2 && short_name[0] == '-') names += ", \\" + short_name;
    const std::string value = option->format_parameter();
    text += ".TP\n.B " + names + (value.empty() ? "" : " " + troff(value)) + "\n" +
            troff(option->description()) + "\n";
  }
  return text;
}

// The words that may follow "kolo trace" in its usage: merge, report, ...
std::set<std::string> words_of_usage(const Command& command) {
  std::set<std::string> words;
  std::istringstream lines(split_intro(command.intro()).first);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream parts(line);
    std::string kolo;
    std::string name;
    std::string word;
    if (!(parts >> kolo >> name >> word) || kolo != "kolo" || name != command.name) continue;
    const auto is_small = [](char c) { return c >= 'a' && c <= 'z'; };
    if (std::all_of(word.begin(), word.end(), is_small)) words.insert(word);
  }
  return words;
}

}  // namespace

std::string man_page_of_kolo(const std::vector<Command>& commands, const std::string& version) {
  std::string text =
      head("kolo", "distributed training for LibTorch programs in C++, over MPI", version) +
      ".SH SYNOPSIS\n.B kolo\nCOMMAND [options]\n.SH COMMANDS\n";
  for (const Command& command : commands) {
    text += ".TP\n.BR kolo\\-" + command.name + " (1)\n" + troff(command.summary) + "\n";
  }
  return text +
         ".TP\n.B kolo help config\nall settings of the environment\n"
         ".TP\n.B kolo help horovod\nwhat Horovod's calls, options and variables are here\n"
         ".SH EXIT STATUS\n0 when all is well, 2 for a wrong command line, else 1 or what a "
         "command "
         "says.\n";
}

std::string man_page(const Command& command, const std::string& version) {
  const auto [synopsis, rest] = split_intro(command.intro());
  std::string text = head("kolo-" + command.name, command.summary, version);
  text += ".SH SYNOPSIS\n" + as_it_stands(synopsis);
  if (!rest.empty()) text += ".SH DESCRIPTION\n" + as_it_stands(rest);
  if (command.options) text += ".SH OPTIONS\n" + option_paragraphs(command.options());
  return text + ".SH SEE ALSO\n.BR kolo (1)\n";
}

std::string bash_completion(const std::vector<Command>& commands) {
  std::string names = "help";
  std::string cases;
  for (const Command& command : commands) {
    names += " " + command.name;
    std::string words;
    for (const std::string& word : words_of_usage(command)) words += " " + word;
    if (command.options) {
      const boost::program_options::options_description table = command.options();
      for (const auto& option : table.options()) words += " --" + option->long_name();
    } else {
      words += " --help";
    }
    cases += "    " + command.name + ") words='" + words.substr(1) + "' ;;\n";
  }
  return "# bash completion for kolo; written by kolo help completion\n"
         "_kolo() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} words=''\n"
         "  [ \"${COMP_WORDS[0]##*/}\" = kolorun ] && command=run\n"
         "  COMPREPLY=()\n"
         "  if [ \"$COMP_CWORD\" = 1 ] && [ \"${COMP_WORDS[0]##*/}\" != kolorun ]; then\n"
         "    mapfile -t COMPREPLY < <(compgen -W '" +
         names +
         " --help --version' -- \"$word\")\n"
         "    return\n"
         "  fi\n"
         "  case $command in\n"
         "    help) words='config horovod completion man " +
         names.substr(5) + "' ;;\n" + cases +
         "  esac\n"
         "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
         "  # Programs and files where no option is meant.\n"
         "  [ \"${#COMPREPLY[@]}\" != 0 ] && [ -n \"$word\" ] || case $word in\n"
         "    -*) ;;\n"
         "    *) mapfile -t -O \"${#COMPREPLY[@]}\" COMPREPLY < <(compgen -f -- \"$word\") ;;\n"
         "  esac\n"
         "}\n"
         "complete -o filenames -F _kolo kolo kolorun\n";
}

}  // namespace kolo::cli
