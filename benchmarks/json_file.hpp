// A file that appears whole or not at all.
#pragma once

#include <stdexcept>
#include <string>

namespace kolo::bench {

// Says which file, and why not.
class FileError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Throws FileError if replace_file() could not write `path`, so that one knows before a long run.
// Leaves nothing behind.
void check_writable(const std::string& path);

// Writes a file beside `path` and renames it to that. Throws FileError.
void replace_file(const std::string& path, const std::string& content);

}  // namespace kolo::bench
