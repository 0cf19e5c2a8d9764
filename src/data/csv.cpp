#include "data/csv.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <new>
#include <optional>
#include <system_error>

#include "data/byte_source.hpp"
#include "data/data_error.hpp"
#include "kolo/error.h"

namespace kolo::data {
namespace {

std::string_view trimmed(std::string_view cell) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t'; };
  while (!cell.empty() && is_space(cell.front())) cell.remove_prefix(1);
  while (!cell.empty() && is_space(cell.back())) cell.remove_suffix(1);
  return cell;
}

std::optional<double> number(std::string_view cell) {
  cell = trimmed(cell);
  if (!cell.empty() && cell.front() == '+') {
    cell.remove_prefix(1);  // from_chars() does not accept a plus
    if (!cell.empty() && cell.front() == '-') return std::nullopt;
  }
  double value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error == std::errc::invalid_argument || end != cell.data() + cell.size() || cell.empty())
    return std::nullopt;
  if (error == std::errc::result_out_of_range) {
    long double wide = 0;  // has smaller numbers, which become 0
    const auto again = std::from_chars(cell.data(), cell.data() + cell.size(), wide);
    if (again.ec != std::errc() || std::abs(wide) > 1) return std::nullopt;
    return 0;
  }
  return value;
}

// Splits a text into lines of cells.
class Lines {
 public:
  Lines(std::string_view text, char delimiter, const std::string& path)
      : text_(text), delimiter_(delimiter), path_(path) {
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    if (text_.substr(0, kByteOrderMark.size()) == kByteOrderMark)
      text_.remove_prefix(kByteOrderMark.size());
  }

  // Replaces `cells` by those of the next non-empty line. Returns false at the end.
  bool next(std::vector<std::string>& cells) {
    while (at_ < text_.size()) {
      ++line_;
      first_line_ = line_;
      cells.clear();
      bool has_more = true;
      bool is_quoted = false;
      while (has_more) {
        is_quoted = at_ < text_.size() && text_[at_] == '"';
        cells.push_back(is_quoted ? quoted() : plain());
        has_more = at_ < text_.size() && text_[at_] == delimiter_;
        if (has_more) ++at_;
      }
      end_line();
      const bool is_empty = cells.size() == 1 && !is_quoted && trimmed(cells[0]).empty();
      if (!is_empty) return true;
    }
    return false;
  }
  // Returns where the latest cells are, for errors; lines are counted from 1.
  std::string place() const { return "line " + std::to_string(first_line_); }

 private:
  bool is_at_end_of_line() const {
    return at_ == text_.size() || text_[at_] == '\n' || text_[at_] == '\r';
  }
  std::string plain() {
    const std::size_t begin = at_;
    while (!is_at_end_of_line() && text_[at_] != delimiter_) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }
  std::string quoted() {
    std::string cell;
    for (++at_;; ++at_) {
      if (at_ == text_.size()) {
        fail(path_, place() + " has a quoted cell without an end",
             "put a quotation mark behind it");
      }
      if (text_[at_] == '\n') ++line_;
      if (text_[at_] == '"') {
        if (text_.substr(at_, 2) != "\"\"") break;
        ++at_;
      }
      cell += text_[at_];
    }
    ++at_;
    if (!is_at_end_of_line() && text_[at_] != delimiter_) {
      fail(path_, place() + " has text behind a quoted cell",
           "write a quotation mark within a cell twice");
    }
    return cell;
  }
  void end_line() {
    if (text_.substr(at_, 2) == "\r\n") ++at_;
    if (at_ < text_.size()) ++at_;
  }

  std::string_view text_;
  const char delimiter_;
  const std::string& path_;
  std::size_t at_ = 0;
  std::size_t line_ = 0;
  std::size_t first_line_ = 0;
};

std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 20;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kMost); ++i)
    text.append(i == 0 ? "'" : ", '").append(names[i]).append("'");
  if (names.size() > kMost) text += " and " + std::to_string(names.size() - kMost) + " more";
  return text;
}

std::string read_all(Source& source) {
  std::string text;
  for (std::size_t got = kChunkBytes; got == kChunkBytes;) {
    const std::size_t have = text.size();
    text.resize(have + kChunkBytes);
    got = source.read(reinterpret_cast<std::uint8_t*>(text.data()) + have, kChunkBytes);
    text.resize(have + got);
  }
  return text;
}

// Reads a file, and decompresses it if it is gzip.
std::string read_unpacked(const std::string& path) {
  std::uint8_t start[2];
  const std::size_t size = FileSource(path).read(start, sizeof start);
  FileSource file(path);
  if (!is_gzip(start, size)) return read_all(file);
  GzipSource unpacked(file, nullptr, 0, path);
  return read_all(unpacked);
}

void name_columns(const std::vector<std::string>& cells, const std::string& path, CsvTable& table) {
  for (const std::string& cell : cells) {
    const std::string name(trimmed(cell));
    if (std::find(table.columns.begin(), table.columns.end(), name) != table.columns.end()) {
      fail(path, "two columns have the name '" + name + "'", "give each column a name of its own");
    }
    table.columns.push_back(name);
  }
}

bool is_whole(double value) {
  constexpr double kLargest = 9007199254740992;  // 2^53: up to it a double has all whole numbers
  return std::trunc(value) == value && std::abs(value) <= kLargest;
}

CsvSamples split(const CsvTable& table, const std::string& target, const std::string& path) {
  const std::size_t columns = table.columns.size();
  const std::size_t target_column = target.empty() ? columns : table.column(target, path);
  CsvSamples samples;
  samples.rows = table.rows();
  const auto narrowed = [&](double value) {
    const auto narrow = static_cast<float>(value);
    if (std::isinf(narrow) && !std::isinf(value)) {
      fail(path, "has the number " + std::to_string(value) + ", which is too large for float32",
           "scale the numbers");
    }
    return narrow;
  };
  for (std::size_t i = 0; i < columns; ++i)
    if (i != target_column) samples.columns.push_back(table.columns[i]);
  samples.values.reserve(samples.rows * samples.columns.size());
  const double* value = table.values.data();
  for (std::size_t row = 0; row < samples.rows; ++row) {
    for (std::size_t column = 0; column < columns; ++column, ++value) {
      if (column == target_column) {
        samples.targets.push_back(*value);
      } else {
        samples.values.push_back(narrowed(*value));
      }
    }
  }
  samples.targets_are_whole = std::all_of(samples.targets.begin(), samples.targets.end(), is_whole);
  if (!samples.targets_are_whole) {
    for (const double one : samples.targets) narrowed(one);
  }
  return samples;
}

}  // namespace

std::size_t CsvTable::column(const std::string& name, const std::string& path) const {
  const auto found = std::find(columns.begin(), columns.end(), name);
  if (found == columns.end()) {
    fail(path, "has no column '" + name + "'; it has " + listed(columns),
         "give one of these names");
  }
  return static_cast<std::size_t>(found - columns.begin());
}

bool is_delimiter(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return std::isalnum(byte) == 0 &&
         std::string_view("+-.\"\r\n").find(c) == std::string_view::npos && c != '\0';
}

CsvTable parse_csv(std::string_view text, char delimiter, const std::string& path) {
  if (!is_delimiter(delimiter)) {
    throw InvalidArgumentError(
        path + ": the delimiter (character " +
        std::to_string(static_cast<unsigned char>(delimiter)) +
        ") cannot be a letter, a digit, a sign, a period, a quote or the end of a line; give a "
        "comma, a semicolon or a tab");
  }
  constexpr std::size_t kShownOfCell = 40;
  CsvTable table;
  Lines lines(text, delimiter, path);
  std::vector<std::string> cells;
  while (lines.next(cells)) {
    const bool is_first = table.columns.empty();
    const auto is_number = [](const std::string& cell) { return number(cell).has_value(); };
    if (is_first && !std::all_of(cells.begin(), cells.end(), is_number)) {
      if (std::any_of(cells.begin(), cells.end(), is_number)) {
        fail(path, lines.place() + " has numbers and other cells",
             "name all columns by text, or none, and write nan for a missing number");
      }
      name_columns(cells, path, table);
      continue;
    }
    for (std::size_t i = 0; is_first && i < cells.size(); ++i)
      table.columns.push_back(std::to_string(i));
    if (cells.size() != table.columns.size()) {
      fail(path,
           lines.place() + " has " + std::to_string(cells.size()) + " cells, and the first line " +
               std::to_string(table.columns.size()),
           "give all lines the same number of cells");
    }
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::optional<double> value = number(cells[i]);
      if (!value) {
        const std::string what = trimmed(cells[i]).empty()
                                     ? "is empty"
                                     : "has '" + cells[i].substr(0, kShownOfCell) +
                                           "', which is not a number that float64 has";
        fail(path, lines.place() + ", column '" + table.columns[i] + "' " + what,
             "write a number, or nan for a missing one");
      }
      table.values.push_back(*value);
    }
  }
  if (table.columns.empty()) fail(path, "has no lines", kGetAgain);
  return table;
}

CsvSamples read_csv(const std::string& path, char delimiter, const std::string& target) {
  try {
    return split(parse_csv(read_unpacked(path), delimiter, path), target, path);
  } catch (const std::bad_alloc&) {
    fail(path, "does not fit into memory", "use a machine with more memory or a smaller file");
  }
}

}  // namespace kolo::data
