// What checkpoints need of a file system, so that tests can put one in its place that fails, or
// forgets what was not synced. Every function throws FileError, which names the file, what was
// tried, and the system's reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace kolo::checkpoint {

class File {
 public:
  virtual ~File() = default;  // closes; an error of that is lost, so call close() after writing

  // Exactly `size` bytes, or an error.
  virtual void write(std::uint64_t offset, const void* data, std::size_t size) = 0;
  // Up to `size` bytes, fewer only at the file's end.
  virtual std::size_t read(std::uint64_t offset, void* data, std::size_t size) = 0;
  virtual std::uint64_t size() = 0;
  virtual void resize(std::uint64_t size) = 0;
  // All that was written through this file is on the disk when it returns.
  virtual void sync() = 0;
  virtual void close() = 0;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  virtual std::unique_ptr<File> create(const std::string& path) = 0;  // empty, whatever was there
  virtual std::unique_ptr<File> open_to_write(const std::string& path) = 0;  // what is there
  virtual std::unique_ptr<File> open_to_read(const std::string& path) = 0;
  // Replaces `to` at once: another process sees the one or the other.
  virtual void rename(const std::string& from, const std::string& to) = 0;
  virtual void remove(const std::string& path) = 0;
  // Makes the names in a folder last.
  virtual void sync_folder(const std::string& path) = 0;
  virtual bool has_folder(const std::string& path) = 0;   // throws if it is something else
  virtual void make_folder(const std::string& path) = 0;  // and those above it; may be there
  virtual std::vector<std::string> list(const std::string& folder) = 0;  // names, in no order
};

// The folder that a path is in.
std::string folder_of(const std::string& path);

// The machine's.
FileSystem& system_files();

}  // namespace kolo::checkpoint
