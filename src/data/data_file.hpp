// A file that many threads read at any position.
#pragma once

#include <sys/stat.h>
#include <sys/uio.h>

#include <cstdint>
#include <string>
#include <vector>

namespace kolo::data {

// Owns a descriptor, and remembers the file's state when it was opened.
class DataFile {
 public:
  // Throws DataError if the file cannot be opened or is not a regular file.
  explicit DataFile(std::string path);
  ~DataFile();
  DataFile(const DataFile&) = delete;
  DataFile& operator=(const DataFile&) = delete;

  const std::string& path() const { return path_; }
  // The size in bytes when the file was opened.
  std::uint64_t size() const { return static_cast<std::uint64_t>(at_first_.st_size); }
  // Fills all of `parts`, whose entries it changes, from this offset on. Throws DataError.
  void read(std::uint64_t offset, std::vector<iovec>& parts) const;
  // Throws DataError if the file was written to or replaced since it was opened.
  void require_unchanged() const;

 private:
  struct stat facts() const;

  const std::string path_;
  int descriptor_ = -1;
  struct stat at_first_ {};
};

}  // namespace kolo::data
