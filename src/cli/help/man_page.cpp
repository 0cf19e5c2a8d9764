#include "cli/help/man_page.hpp"

#include <boost/program_options/cmdline.hpp>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <sstream>

namespace kolo::cli {
namespace {

std::string upper(const std::string& text) {
  std::string all;
  for (const char c : text) all += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return all;
}

// Escapes text for troff: backslashes, dashes, and lines that would look like requests.
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

// Returns the first paragraph of an intro, without "Usage: " and its indentation, and the rest.
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

std::string pairs(const std::string& title,
                  const std::vector<std::pair<std::string, std::string>>& rows) {
  if (rows.empty()) return "";
  std::string text = ".SH " + title + "\n";
  for (const auto& [what, meaning] : rows)
    text += ".TP\n.B " + troff(what) + "\n" + troff(meaning) + "\n";
  return text;
}

// --- completion ---

// The words that a command line may contain.
struct Shape {
  std::set<std::string> words;                              // after the command: merge, report, ...
  std::vector<std::pair<std::string, bool>> options;        // as written; whether it takes a value
  std::vector<std::pair<std::string, std::string>> values;  // an option, and its value's name
  bool takes_files = false;
};

bool is_of(const std::string& word, const char* letters) {
  return !word.empty() && word.find_first_not_of(letters) == std::string::npos;
}

std::string without_brackets(const std::string& word) {
  const std::size_t begin = word.find_first_not_of("[(");
  const std::size_t end = word.find_last_not_of("]),.");
  return begin == std::string::npos ? "" : word.substr(begin, end + 1 - begin);
}

void add_option(Shape& shape, const std::string& name, const std::string& value) {
  shape.options.emplace_back(name, !value.empty());
  if (!value.empty()) shape.values.emplace_back(name, value);
}

// Takes words and options from the usage. "kolo trace report FOLDER [-o FILE]" has a word, and an
// option with a file.
void take_usage(Shape& shape, const Command& command) {
  std::istringstream lines(split_intro(command.intro()).first);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream parts(line);
    std::vector<std::string> words;
    for (std::string word; parts >> word;) {
      const bool is_its = words.size() == 2 && words[0] == "kolo" && words[1] == command.name;
      if (is_its && is_of(word, "abcdefghijklmnopqrstuvwxyz")) shape.words.insert(word);
      word = without_brackets(word);
      if (!word.empty()) words.push_back(word);
    }
    for (std::size_t i = 0; i < words.size(); ++i) {
      const bool is_file = words[i].find("FILE") == 0 || words[i].find("FOLDER") == 0;
      if (is_file && i > 0 && words[i - 1][0] != '-') shape.takes_files = true;
      if (words[i].size() < 2 || words[i][0] != '-') continue;
      const bool has_value =
          i + 1 < words.size() && is_of(words[i + 1], "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
      add_option(shape, words[i], has_value ? words[i + 1] : "");
    }
  }
}

// Takes words from the lines "  allreduce   what it measures" in the rest of an intro.
void take_list(Shape& shape, const Command& command) {
  std::istringstream lines(split_intro(command.intro()).second);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t end = line.find("  ", 2);
    if (line.rfind("  ", 0) == 0 && end != std::string::npos &&
        is_of(line.substr(2, end - 2), "abcdefghijklmnopqrstuvwxyz"))
      shape.words.insert(line.substr(2, end - 2));
  }
}

Shape shape_of(const Command& command) {
  Shape shape;
  take_usage(shape, command);
  take_list(shape, command);
  if (!command.options) {
    add_option(shape, "--help", "");
    return shape;
  }
  const boost::program_options::options_description table = command.options();
  for (const auto& option : table.options()) {
    const std::string all = option->format_parameter();
    const std::string value = all.substr(0, all.find(' '));
    add_option(shape, "--" + option->long_name(), value);
    const std::string name = option->canonical_display_name(
        boost::program_options::command_line_style::allow_dash_for_short);
    if (name.size() == 2 && name[0] == '-') add_option(shape, name, value);
  }
  return shape;
}

// Returns how bash completes a value with this name; empty: not at all.
std::string completion_of_value(const std::string& name) {
  if (name == "FILE" || name == "PATH") return "-f";
  if (name == "DIR" || name == "FOLDER") return "-d";
  if (name.find('|') == std::string::npos) return "";
  std::string words = name;
  std::replace(words.begin(), words.end(), '|', ' ');
  return "-W '" + words + "'";
}

std::string joined(const std::set<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

// Returns a command's cases: one for its words and options, one for the values of its options.
std::pair<std::string, std::string> cases_of(const Command& command) {
  const Shape shape = shape_of(command);
  std::set<std::string> options;
  std::set<std::string> valued;
  std::map<std::string, std::string> values;  // by option
  for (const auto& [name, has_value] : shape.options) {
    if (name.rfind("--", 0) == 0) options.insert(name);
    if (has_value) valued.insert(name);
  }
  for (const auto& [name, value] : shape.values) values[name] = completion_of_value(value);
  std::string value_cases;
  for (const auto& [name, completion] : values) {
    if (completion.empty()) continue;
    value_cases.append("      '").append(command.name).append(" ").append(name);
    value_cases.append("') how=(").append(completion).append(") ;;\n");
  }
  const bool takes_files = command.has_program || shape.takes_files;
  return {"    " + command.name + ") words='" + joined(shape.words) + "' options='" +
              joined(options) + "' valued='" + joined(valued) +
              "' program=" + (command.has_program ? "yes" : "no") +
              " files=" + (takes_files ? "yes" : "no") + " ;;\n",
          value_cases};
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
         ".TP\n.B kolo help horovod\nkolo's counterparts of Horovod's calls, options and "
         "variables\n" +
         pairs("EXIT STATUS", {{"0", "all is well"},
                               {"2", "a wrong command line"},
                               {"1 and others", "depends on the command: see its page"}}) +
         pairs("EXAMPLES", {{"kolo doctor", "what this computer has, and what is wrong with it"},
                            {"kolo run -np 4 ./train", "a program on four ranks"}});
}

std::string man_page(const Command& command, const std::string& version) {
  const auto [synopsis, rest] = split_intro(command.intro());
  std::string text = head("kolo-" + command.name, command.summary, version);
  text += ".SH SYNOPSIS\n" + as_it_stands(synopsis);
  if (!rest.empty()) text += ".SH DESCRIPTION\n" + as_it_stands(rest);
  if (command.options) text += ".SH OPTIONS\n" + option_paragraphs(command.options());
  text += pairs("EXIT STATUS", command.exit_status) + pairs("EXAMPLES", command.examples);
  return text + ".SH SEE ALSO\n.BR kolo (1)\n";
}

std::string bash_completion(const std::vector<Command>& commands) {
  std::string names;
  std::string cases;
  std::string values;
  for (const Command& command : commands) {
    names += " " + command.name;
    const auto [shape, value_cases] = cases_of(command);
    cases += shape;
    values += value_cases;
  }
  return R"(# bash completion for kolo; written by kolo help completion
_kolo() {
  local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} first=2 option='' i
  local words='' options='' valued='' program=no files=no how=()
  if [ "${COMP_WORDS[0]##*/}" = kolorun ]; then
    command=run first=1
  fi
  COMPREPLY=()
  if [ "$COMP_CWORD" -lt "$first" ]; then
    mapfile -t COMPREPLY < <(compgen -W 'help)" +
         names + R"( --help --version' -- "$word")
    return
  fi
  case $command in
    help) words='config horovod completion man)" +
         names + R"(' ;;
)" + cases +
         R"(  esac
  # The words before: an option whose value is wanted, or a program, whose words are files.
  for ((i = first; i < COMP_CWORD; i++)); do
    [ "$i" = "$first" ] && [ -n "$words" ] && continue
    case ${COMP_WORDS[i]} in
      --) [ "$program" = no ] || first=-1 ;;
      -*)
        option=${COMP_WORDS[i]}
        if [ "${COMP_WORDS[i + 1]}" = = ]; then   # bash makes three words of --option=value
          i=$((i + 2))
        elif [[ " $valued -np " = *" $option "* ]]; then
          i=$((i + 1))
        fi
        [ "$i" -ge "$COMP_CWORD" ] || option=''
        ;;
      *) [ "$program" = no ] || first=-1 ;;
    esac
    [ "$first" != -1 ] || break
  done
  [ "$word" != = ] || word=''
  if [ "$first" = -1 ]; then
    how=(-f)
  elif [ -n "$option" ] && [ "$i" -ge "$COMP_CWORD" ]; then
    case "$command $option" in
)" + values +
         R"(    esac
    [ "${#how[@]}" != 0 ] || return
  elif [ "$COMP_CWORD" = "$first" ] && [ -n "$words" ]; then
    how=(-W "$words --help")
  elif [[ $word = -* ]]; then
    how=(-W "$options")
  elif [ "$files" = yes ]; then
    how=(-f)
    [ -n "$word" ] || how=(-f -W "$options")
  else
    how=(-W "$options")
  fi
  mapfile -t COMPREPLY < <(compgen "${how[@]}" -- "$word")
}
complete -o filenames -F _kolo kolo kolorun
)";
}

}  // namespace kolo::cli
