// The page on Horovod: complete, about things that exist on both sides, and the same in docs.
#include "cli/help/horovod.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "cli/run/run_options.hpp"
#include "core/config.hpp"

namespace kolo::cli {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const std::filesystem::path kSource = KOLO_SOURCE_DIR;

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> matches(const std::string& text, const std::regex& pattern, int group) {
  std::vector<std::string> found;
  for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match)
    found.push_back((*match)[group]);
  return found;
}

std::vector<std::string> names_in(const std::string& list) {
  return matches(list, std::regex("[^, ]+"), 0);
}

// A row of the page's tables.
struct HorovodRow {
  std::string names;  // without backticks: "allreduce, allreduce_", or "op of allreduce"
  std::string kolo;
  std::string remark;
  std::string section;  // its heading
};

std::vector<HorovodRow> all_rows() {
  std::vector<HorovodRow> rows;
  const std::regex pattern(R"(\| (.*) \| (.*) \| (.*) \|)");
  std::string section;
  for (const std::string& line : lines_of(kHorovodPage)) {
    if (line.rfind("## ", 0) == 0) section = line.substr(3);
    std::smatch cells;
    if (!std::regex_match(line, cells, pattern) || cells[1] == "Horovod") continue;
    rows.push_back(
        {std::regex_replace(cells[1].str(), std::regex("`"), ""), cells[2], cells[3], section});
  }
  return rows;
}

// --- Horovod's side ---

std::set<std::string> horovod_entries() {
  std::set<std::string> entries;
  for (const std::string& line : lines_of(text_of(kSource / "tests/horovod/entries.txt"))) {
    if (line[0] != '#') entries.insert(line);
  }
  return entries;
}

// The kinds of each entry but arguments: "allreduce" -> "call". A variable may be of the build,
// too.
const std::map<std::string, std::set<std::string>>& kinds() {
  static const std::map<std::string, std::set<std::string>> all = [] {
    std::map<std::string, std::set<std::string>> made;
    for (const std::string& entry : horovod_entries()) {
      const std::size_t space = entry.find(' ');
      const std::string kind = entry.substr(0, space);
      if (kind != "argument") made[entry.substr(space + 1)].insert(kind);
    }
    return made;
  }();
  return all;
}

// "call", "flag", ..., or "argument" for names that are nothing else.
std::string kind_of(const HorovodRow& row) {
  if (row.names.find(" of ") != std::string::npos) return "argument";
  const auto found = kinds().find(names_in(row.names).front());
  if (found == kinds().end()) return "argument";
  const bool is_build = row.section == "Variables of the build";
  return is_build && found->second.count("build") == 1 ? "build" : *found->second.rbegin();
}

// "op": an argument of every call that has it and is not named by another row.
bool is_for_every_call(const HorovodRow& row) {
  return kind_of(row) == "argument" && row.names.find(" of ") == std::string::npos;
}

// "argument allreduce op" and so on, as entries.txt has them.
std::vector<std::string> entries_named_by(const HorovodRow& row) {
  const std::size_t of = row.names.find(" of ");
  std::vector<std::string> entries;
  for (const std::string& name : names_in(row.names.substr(0, of))) {
    if (of == std::string::npos) {
      entries.push_back(kind_of(row).append(" ").append(name));
      continue;
    }
    for (const std::string& call : names_in(row.names.substr(of + 4)))
      entries.push_back("argument " + call + " " + name);
  }
  return entries;
}

std::string last_word(const std::string& entry) {
  return entry.substr(entry.rfind(' ') + 1);
}

TEST(HorovodTable, NamesEveryEntryOnce) {
  std::map<std::string, int> named;
  std::set<std::string> of_every_call;
  for (const HorovodRow& row : all_rows()) {
    for (const std::string& entry : entries_named_by(row)) {
      if (is_for_every_call(row)) {
        EXPECT_TRUE(of_every_call.insert(last_word(entry)).second) << entry << " comes twice";
      } else {
        EXPECT_EQ(++named[entry], 1) << entry << " comes twice";
      }
    }
  }
  for (const std::string& entry : horovod_entries()) {
    const bool is_argument = entry.rfind("argument ", 0) == 0;
    EXPECT_TRUE(named.count(entry) == 1 ||
                (is_argument && of_every_call.count(last_word(entry)) == 1))
        << "no row names: " << entry;
  }
}

TEST(HorovodTable, NamesNothingThatHorovodHasNot) {
  const std::set<std::string> entries = horovod_entries();
  std::set<std::string> arguments;
  for (const std::string& entry : entries) {
    if (entry.rfind("argument ", 0) == 0) arguments.insert("argument " + last_word(entry));
  }
  for (const HorovodRow& row : all_rows()) {
    for (const std::string& entry : entries_named_by(row))
      EXPECT_THAT(is_for_every_call(row) ? arguments : entries, Contains(entry)) << row.names;
  }
}

TEST(HorovodTable, IsOfTheVersionThatEntriesWereMadeFrom) {
  EXPECT_THAT(lines_of(text_of(kSource / "tests/horovod/entries.txt")).front(),
              HasSubstr("# Horovod 0.28.1, commit "));
  EXPECT_THAT(kHorovodPage, HasSubstr("Horovod 0.28.1 "));
}

// --- kolo's side ---

const std::regex kIdentifier("[A-Za-z_][A-Za-z0-9_]*");

// The public headers without their comments.
std::string public_headers() {
  std::string text;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(kSource / "include/kolo"))
    if (entry.path().extension() == ".h") text += text_of(entry.path());
  return std::regex_replace(text, std::regex("//[^\n]*"), "");
}

// What a program can name, and what of it can be called.
struct PublicNames {
  std::set<std::string> all;
  std::set<std::string> functions;
};
const PublicNames& public_names() {
  static const PublicNames names = [] {
    const std::string headers = public_headers();
    PublicNames made;
    for (std::string& name : matches(headers, kIdentifier, 0)) made.all.insert(std::move(name));
    for (const char* pattern : {R"((\w+)\()", R"(TORCH_ARG\([^;=]*?(\w+)\) =)"}) {
      for (std::string& name : matches(headers, std::regex(pattern), 1))
        made.functions.insert(std::move(name));
    }
    return made;
  }();
  return names;
}

bool is_setting(const std::string& name) {
  return std::any_of(settings().begin(), settings().end(),
                     [&](const Setting& setting) { return setting.name == name; });
}

bool is_build_variable(const std::string& name) {
  if (name.rfind("CMAKE_", 0) == 0) return true;
  static const std::string files = text_of(kSource / "CMakeLists.txt") +
                                   text_of(kSource / "cmake/FindKoloMPI.cmake") +
                                   text_of(kSource / "cmake/FindLibTorch.cmake");
  return std::regex_search(files, std::regex("\\b" + name + "\\b"));
}

// What a rank finds in its environment: docs/running.md has a table.
bool is_rank_variable(const std::string& name) {
  static const std::string page = text_of(kSource / "docs/running.md");
  static const std::set<std::string> names = {
      "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"};
  return names.count(name) == 1 && page.find("`" + name + "`") != std::string::npos;
}

bool is_run_option(const std::string& word) {
  static const auto table = run_option_table();
  if (word == "-np") return table.find_nothrow("np", false) != nullptr;
  const std::string name = word.rfind("--", 0) == 0 ? word.substr(2) : word;
  return table.find_nothrow(name, false) != nullptr;
}

bool is_known_word(const std::string& word, const std::string& kind) {
  if (word[0] == '-') return is_run_option(word);
  if (word.rfind("torch::", 0) == 0) return true;
  if (word.size() > 2 && word.substr(word.size() - 2) == ".h")
    return std::filesystem::exists(kSource / "include" / word);
  for (const std::string& name : matches(word, kIdentifier, 0)) {
    if (name.rfind("KOLO_", 0) == 0 || name.rfind("CMAKE_", 0) == 0) {
      if (!(kind == "build" ? is_build_variable(name) : is_setting(name))) return false;
    } else if (public_names().all.count(name) == 0 && !is_rank_variable(name)) {
      return false;
    }
  }
  const auto called = matches(word, std::regex(R"((\w+)\()"), 1);
  return std::all_of(called.begin(), called.end(), [](const std::string& name) {
    return public_names().functions.count(name) == 1;
  });
}

// Everything in backticks is kolo's: a command, an option of kolo run, a setting, a public name.
void expect_known(const std::string& text, const std::string& kind, const std::string& where) {
  for (const std::string& code : matches(text, std::regex("`([^`]*)`"), 1)) {
    std::vector<std::string> words =
        matches(std::regex_replace(code, std::regex("\"[^\"]*\""), ""), std::regex("\\S+"), 0);
    ASSERT_FALSE(words.empty()) << where;
    if (words[0] == "kolo") {
      ASSERT_GE(words.size(), 2) << where;
      EXPECT_THAT(words[1], AnyOf("run", "doctor", "bench", "help", "--version")) << where;
      words.erase(words.begin(), words.begin() + 2);
    }
    for (const std::string& word : words)
      EXPECT_TRUE(is_known_word(word, kind)) << "'" << word << "' of `" << code << "`, " << where;
  }
}

TEST(HorovodTable, KoloHasWhatItNames) {
  for (const HorovodRow& row : all_rows()) {
    expect_known(row.kolo, kind_of(row), row.names);
    expect_known(row.remark, kind_of(row), row.names);
  }
}

TEST(HorovodTable, EachRowSaysWhatIsInKoloOrWhatToDo) {
  for (const HorovodRow& row : all_rows()) {
    if (row.kolo == "not yet") {
      EXPECT_THAT(row.remark, Not(HasSubstr("`"))) << row.names;
    } else if (row.kolo == "none") {
      EXPECT_THAT(row.remark, Not(IsEmpty())) << row.names;
    } else {
      EXPECT_THAT(row.kolo, HasSubstr("`")) << row.names;
    }
  }
}

TEST(HorovodTable, VariablesThatAreReadAreMappedToTheirSetting) {
  for (const Setting& setting : settings()) {
    if (setting.horovod_name.empty()) continue;
    const std::vector<HorovodRow> rows = all_rows();
    const auto row = std::find_if(rows.begin(), rows.end(), [&](const HorovodRow& one) {
      return kind_of(one) == "variable" && one.names == setting.horovod_name;
    });
    ASSERT_NE(row, rows.end()) << setting.horovod_name;
    EXPECT_EQ(row->kolo, "`" + setting.name + "`");
  }
}

// --- as text ---

TEST(HorovodPage, IsTheOneInDocs) {
  EXPECT_EQ(text_of(kSource / "docs/horovod.md"), kHorovodPage);
}

TEST(HorovodPage, NamesWhatKoloHas) {
  const std::string page = kHorovodPage;
  const auto names = matches(page, std::regex(R"(kolo::(\w+))"), 1);
  EXPECT_THAT(names, Contains("init"));
  for (const std::string& name : names) EXPECT_THAT(public_names().all, Contains(name));
  for (const std::string& line : lines_of(page)) {
    const bool is_code = line.rfind("```", 0) == 0;
    if (!is_code && line[0] != '#' && line[0] != '<' && line[0] != '|' && line.back() != ':')
      expect_known(line, "", line);
  }
}

TEST(HorovodPage, IsATable) {
  for (const std::string& line : lines_of(kHorovodPage)) {
    EXPECT_EQ(std::count(line.begin(), line.end(), '|'), line[0] == '|' ? 4 : 0) << line;
  }
}

TEST(HorovodText, FitsATerminalAndHasEveryRow) {
  const std::string text = horovod_text();
  for (const std::string& line : lines_of(text)) EXPECT_LE(line.size(), 80) << line;
  EXPECT_THAT(text, Not(HasSubstr("`")));
  EXPECT_THAT(text, Not(HasSubstr("](")));
  const std::string words = std::regex_replace(text, std::regex("\\s+"), " ");
  for (const HorovodRow& row : all_rows()) {
    const std::string kolo = std::regex_replace(row.kolo, std::regex("`"), "");
    EXPECT_THAT(words, HasSubstr(row.names + " kolo: " + kolo));
  }
}

}  // namespace
}  // namespace kolo::cli
