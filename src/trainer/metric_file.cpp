#include "trainer/metric_file.hpp"

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include "kolo/error.h"

namespace kolo::trainer {
namespace {

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw FileError(path + ": " + what + ": " + std::generic_category().message(errno));
}

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return lines;
  std::ifstream file(path);
  if (!file) fail(path, "the file cannot be read");
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

void write(const std::string& path, std::ios::openmode mode, const std::string& text) {
  std::ofstream file(path, mode);
  file << text;
  file.close();
  if (!file) fail(path, "the file cannot be written");
}

// Renames `path` to `by`.
void replace(const std::string& path, const std::string& by) {
  std::error_code error;
  std::filesystem::rename(path, by, error);
  if (error) throw FileError(path + ": cannot be renamed to " + by + ": " + error.message());
}

}  // namespace

MetricFile::MetricFile(std::string path, std::string before_epoch)
    : path_(std::move(path)), before_epoch_(std::move(before_epoch)) {}

bool MetricFile::is_row_before(const std::string& line, std::int64_t epoch) const {
  if (line.compare(0, before_epoch_.size(), before_epoch_) != 0) return false;
  std::int64_t number = 0;
  const char* const begin = line.data() + before_epoch_.size();
  const char* const end = line.data() + line.size();
  return std::from_chars(begin, end, number).ec == std::errc() && number < epoch;
}

void MetricFile::keep_rows_before(std::int64_t epoch) const {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::absolute(path_).parent_path(), error);
  if (error) throw FileError(path_ + ": its folder cannot be made: " + error.message());
  const std::vector<std::string> lines = lines_of(path_);
  if (lines.empty()) return;
  std::string rows;
  for (const std::string& line : lines) {
    if (is_row_before(line, epoch)) rows += line + "\n";
  }
  const bool has_header = !is_row_before(lines.front(), INT64_MAX);
  // Writes another file first, so that a full disk loses nothing.
  const std::string kept = rows.empty() ? "" : (has_header ? lines.front() + "\n" : "") + rows;
  write(path_ + ".tmp", std::ios::trunc, kept);
  replace(path_ + ".tmp", path_);
}

void MetricFile::add(const std::string& row, const std::string& header) const {
  std::vector<std::string> lines;
  if (!header.empty()) lines = lines_of(path_);
  if (!lines.empty() && lines.front() != header) {
    replace(path_, path_ + ".old");
    lines.clear();
  }
  write(path_, std::ios::app, (header.empty() || !lines.empty() ? "" : header + "\n") + row + "\n");
}

}  // namespace kolo::trainer
