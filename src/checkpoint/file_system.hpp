// The file system operations that checkpoints need. Tests substitute an implementation that fails,
// or that forgets what was not synced. Every function throws FileError, which names the file, the
// attempted operation, and the system's reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace kolo::checkpoint {

class File {
 public:
  virtual ~File() = default;  // closes, but loses errors; call close() after writing

  // Writes exactly `size` bytes, or throws.
  virtual void write(std::uint64_t offset, const void* data, std::size_t size) = 0;
  // Reads up to `size` bytes; fewer only at the end of the file.
  virtual std::size_t read(std::uint64_t offset, void* data, std::size_t size) = 0;
  virtual std::uint64_t size() = 0;
  virtual void resize(std::uint64_t size) = 0;
  // Returns once everything written through this file is on the disk.
  virtual void sync() = 0;
  virtual void close() = 0;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  virtual std::unique_ptr<File> create(const std::string& path) = 0;  // truncates an existing file
  virtual std::unique_ptr<File> open_to_write(const std::string& path) = 0;  // keeps the contents
  virtual std::unique_ptr<File> open_to_read(const std::string& path) = 0;
  // Replaces `to` atomically: another process sees either the old or the new file.
  virtual void rename(const std::string& from, const std::string& to) = 0;
  virtual void remove(const std::string& path) = 0;
  // Makes the folder's entries durable.
  virtual void sync_folder(const std::string& path) = 0;
  virtual bool has_folder(const std::string& path) = 0;   // throws if it is not a folder
  virtual void make_folder(const std::string& path) = 0;  // and its parents; it may exist
  virtual std::vector<std::string> list(const std::string& folder) = 0;  // names, unordered
};

// Returns the folder that contains a path.
std::string folder_of(const std::string& path);

// Returns the machine's file system.
FileSystem& system_files();

}  // namespace kolo::checkpoint
