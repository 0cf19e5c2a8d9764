// Tables of numbers in text (RFC 4180, https://www.rfc-editor.org/rfc/rfc4180):
//
//   file  = [header] {line}           ; empty lines are skipped
//   line  = cell {delimiter cell} end ; end: LF, CR LF, CR or the file's end
//   cell  = plain | '"' {any character, '""' for '"'} '"'
//
// A first line without numbers is the header, which names the columns.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace kolo::data {

struct CsvTable {
  std::vector<std::string> columns;  // names; without a header "0", "1", ...
  std::vector<double> values;        // row-major

  std::size_t rows() const { return columns.empty() ? 0 : values.size() / columns.size(); }
  // Returns the number of the column with this name. Throws DataError, which names `path` and the
  // columns.
  std::size_t column(const std::string& name, const std::string& path) const;
};

// A table of samples, from which a column with the targets may have been split off.
struct CsvSamples {
  std::vector<std::string> columns;  // of the samples
  std::vector<float> values;         // of the samples, row-major
  std::vector<double> targets;       // empty without a target column
  bool targets_are_whole = false;    // all are whole, and exact in int64 and double
  std::size_t rows = 0;
};

// Whether the character can separate cells: not a letter, digit, sign, point, quote, end of line or
// zero byte.
bool is_delimiter(char c);

// Throws DataError, which names `path`, the line and the column, for a cell that is empty or not a
// number, for a line with another number of cells than the first one, for a quoted cell without an
// end, for a name that two columns have, and for a text without any line. Throws
// InvalidArgumentError for an invalid delimiter.
CsvTable parse_csv(std::string_view text, char delimiter, const std::string& path);

// Reads a file, plain or gzip. The column named `target` becomes the targets; if the name is empty,
// there are none.
CsvSamples read_csv(const std::string& path, char delimiter, const std::string& target);

}  // namespace kolo::data
