#include "cli/help/horovod.hpp"

#include <algorithm>
#include <cctype>
#include <sstream>
#include <utility>
#include <vector>

namespace kolo::cli {
namespace {

bool begins_with(const std::string& text, const char* prefix) {
  return text.rfind(prefix, 0) == 0;
}

// "[errors.md](errors.md)" -> "errors.md", "`op`" -> "op"
std::string without_markup(std::string text) {
  for (std::size_t at = 0; (at = text.find("](", at)) != std::string::npos;) {
    text.erase(at, text.find(')', at) + 1 - at);
    text.erase(text.rfind('[', at), 1);
  }
  text.erase(std::remove(text.begin(), text.end(), '`'), text.end());
  return text;
}

// Wraps text into lines of at most 80 characters, each indented. A longer word gets a line of its
// own.
std::string wrapped(const std::string& text, std::size_t indent) {
  constexpr std::size_t kWidth = 80;
  std::string lines;
  std::string line;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (!line.empty() && indent + line.size() + 1 + word.size() > kWidth) {
      lines += std::string(indent, ' ') + std::exchange(line, "") + "\n";
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return line.empty() ? lines : lines + std::string(indent, ' ') + line + "\n";
}

std::string heading(std::string title) {
  std::transform(title.begin(), title.end(), title.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return title + "\n";
}

std::string list_item(const std::string& text) {
  std::string lines = wrapped(text, 2);
  if (!lines.empty()) lines[0] = '-';
  return lines;
}

// "| a | b | c |" -> "a", "b", "c"
std::vector<std::string> cells_of(const std::string& row) {
  std::vector<std::string> cells;
  for (std::size_t begin = 1; begin < row.size();) {
    const std::size_t end = std::min(row.find('|', begin), row.size());
    cells.push_back(row.substr(begin, end - begin));
    begin = end + 1;
  }
  return cells;
}

// Formats Horovod's names, and below them kolo's names and the remark. Returns nothing for the head
// of a table.
std::string table_row(const std::string& row) {
  const std::vector<std::string> cells = cells_of(row);
  if (cells.size() != 3 || begins_with(row, "| Horovod |") || begins_with(row, "|---")) return {};
  return wrapped(cells[0], 0) + wrapped("kolo: " + cells[1], 4) + wrapped(cells[2], 4);
}

}  // namespace

std::string horovod_text() {
  std::string text;
  bool is_code = false;
  std::istringstream page(kHorovodPage);
  for (std::string line; std::getline(page, line);) {
    if (begins_with(line, "```")) {
      is_code = !is_code;
    } else if (is_code) {
      text += line.empty() ? "\n" : "  " + line + "\n";
    } else if (begins_with(line, "# ") || begins_with(line, "<!--")) {
      std::getline(page, line);  // the blank line after it
    } else if (begins_with(line, "## ")) {
      text += heading(line.substr(3));
    } else if (begins_with(line, "- ")) {
      text += list_item(without_markup(line.substr(2)));
    } else if (begins_with(line, "|")) {
      text += table_row(without_markup(line));
    } else {
      text += line.empty() ? "\n" : wrapped(without_markup(line), 0);
    }
  }
  return text;
}

}  // namespace kolo::cli
