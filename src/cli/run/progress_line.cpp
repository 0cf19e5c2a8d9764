#include "cli/run/progress_line.hpp"

#include <string_view>

#include "core/terminal.hpp"

namespace kolo::cli {
namespace {

constexpr std::string_view kErase = "\033[K";
// The end of a progress line.
constexpr std::string_view kEnd = "\033[K\r";

}  // namespace

std::string ProgressLine::place(const std::string& text, std::size_t columns) {
  if (text.empty()) return text;
  if (text == kEnd) {
    drawn_ = false;
    return text;
  }
  if (text.ends_with(kEnd)) {
    drawn_ = true;
    if (columns == 0) return text;
    // With the cursor behind the last column, some terminals erase the character in that column.
    const std::string line = text.substr(0, text.size() - kEnd.size());
    return first_columns(line, columns - 1).append(kEnd);
  }
  return clear() + text;
}

std::string ProgressLine::clear() {
  const std::string_view erase = drawn_ ? kErase : "";
  drawn_ = false;
  return std::string(erase);
}

}  // namespace kolo::cli
