// A file that is read at places by many threads.
#pragma once

#include <sys/stat.h>
#include <sys/uio.h>

#include <cstdint>
#include <string>
#include <vector>

namespace kolo::data {

// Owns a descriptor, and knows what the file was when it was opened.
class DataFile {
 public:
  // Throws DataError if it cannot be opened or is no regular file.
  explicit DataFile(std::string path);
  ~DataFile();
  DataFile(const DataFile&) = delete;
  DataFile& operator=(const DataFile&) = delete;

  const std::string& path() const { return path_; }
  // In bytes, when it was opened.
  std::uint64_t size() const { return static_cast<std::uint64_t>(at_first_.st_size); }
  // Fills all of `parts`, of which it changes the entries, from this offset on. Throws DataError.
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
