// A file with a row for each epoch.
#pragma once

#include <cstdint>
#include <string>

namespace kolo::trainer {

// All throw FileError.
class MetricFile {
 public:
  // A row begins with `before_epoch` and the epoch's number.
  MetricFile(std::string path, std::string before_epoch);

  // Makes the folder, and removes the rows of this epoch and later ones. A file without rows has no
  // header either.
  void keep_rows_before(std::int64_t epoch) const;
  // Adds a line. In an empty file the header comes first, if there is one. A file that begins with
  // another header is renamed to PATH.old.
  void add(const std::string& row, const std::string& header = {}) const;

 private:
  bool is_row_before(const std::string& line, std::int64_t epoch) const;

  const std::string path_;
  const std::string before_epoch_;
};

}  // namespace kolo::trainer
