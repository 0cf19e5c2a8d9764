// A text file with one row per epoch.
#pragma once

#include <cstdint>
#include <string>

namespace kolo::trainer {

// Reads and edits the file. All functions throw FileError.
class MetricFile {
 public:
  // A row begins with `before_epoch`, followed by the epoch's number.
  MetricFile(std::string path, std::string before_epoch);

  // Creates the folder, and removes the rows of this epoch and later ones. If no row is left,
  // removes the header, too.
  void keep_rows_before(std::int64_t epoch) const;
  // Appends a row. If the file is empty, writes the header first, if there is one. Renames a file
  // that begins with another header to PATH.old.
  void add(const std::string& row, const std::string& header = {}) const;

 private:
  bool is_row_before(const std::string& line, std::int64_t epoch) const;

  const std::string path_;
  const std::string before_epoch_;
};

}  // namespace kolo::trainer
