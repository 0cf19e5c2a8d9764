#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "checkpoint/file_system.hpp"
#include "kolo/error.h"

namespace kolo::checkpoint {
namespace {

// Limit for one system call, so that a signal does not wait for long.
constexpr std::size_t kMostAtOnce = std::size_t{64} << 20;
// For writes of at least this size, the disk starts at once.
constexpr std::size_t kStartsDisk = std::size_t{256} << 10;

std::string remedy(int error) {
  switch (error) {
    case ENOSPC:
      return "; make room there, or keep fewer checkpoints";
    case EDQUOT:
      return "; your quota there is used up";
    case EROFS:
    case EACCES:
    case EPERM:
      return "; give a folder that this user may write";
    case ENOTDIR:
      return "; a part of the path is not a folder";
    case EISDIR:
      return "; it is a folder";
    case EFBIG:
      return "; the file system or a limit (ulimit -f) allows no larger file";
    default:
      return "";
  }
}

[[noreturn]] void fail(const std::string& what, const std::string& path, int error) {
  throw FileError("cannot " + what + " " + path + ": " + std::generic_category().message(error) +
                  remedy(error));
}

class SystemFile : public File {
 public:
  SystemFile(int descriptor, std::string path) : descriptor_(descriptor), path_(std::move(path)) {}
  ~SystemFile() override {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  SystemFile(const SystemFile&) = delete;
  SystemFile& operator=(const SystemFile&) = delete;

  void write(std::uint64_t offset, const void* data, std::size_t size) override {
    const std::uint64_t begin = offset;
    const auto* from = static_cast<const char*>(data);
    while (size > 0) {
      const ssize_t written =
          ::pwrite(descriptor_, from, std::min(size, kMostAtOnce), static_cast<off_t>(offset));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail("write", path_, errno);
      if (written == 0) fail("write", path_, ENOSPC);
      from += written;
      offset += static_cast<std::uint64_t>(written);
      size -= static_cast<std::size_t>(written);
    }
    // Starts the disk now, not only when the program syncs or memory runs short. Only a hint:
    // sync() reports the errors.
    if (offset - begin >= kStartsDisk) {
      ::sync_file_range(descriptor_, static_cast<off_t>(begin), static_cast<off_t>(offset - begin),
                        SYNC_FILE_RANGE_WRITE);
    }
  }

  std::size_t read(std::uint64_t offset, void* data, std::size_t size) override {
    auto* to = static_cast<char*>(data);
    std::size_t done = 0;
    while (done < size) {
      const ssize_t got = ::pread(descriptor_, to + done, std::min(size - done, kMostAtOnce),
                                  static_cast<off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail("read", path_, errno);
      if (got == 0) break;
      done += static_cast<std::size_t>(got);
    }
    return done;
  }

  std::uint64_t size() override {
    struct stat found {};
    if (::fstat(descriptor_, &found) != 0) fail("look at", path_, errno);
    return static_cast<std::uint64_t>(found.st_size);
  }

  void resize(std::uint64_t size) override {
    while (::ftruncate(descriptor_, static_cast<off_t>(size)) != 0)
      if (errno != EINTR) fail("set the size of", path_, errno);
  }

  void sync() override {
    while (::fsync(descriptor_) != 0)
      if (errno != EINTR) fail("write to disk", path_, errno);
  }

  // Some network file systems report only here that the disk is full.
  void close() override {
    const int descriptor = descriptor_;
    descriptor_ = -1;
    if (descriptor >= 0 && ::close(descriptor) != 0 && errno != EINTR) fail("close", path_, errno);
  }

 private:
  int descriptor_;  // -1: closed
  const std::string path_;
};

class SystemFiles : public FileSystem {
 public:
  std::unique_ptr<File> create(const std::string& path) override {
    return open(path, O_CREAT | O_TRUNC | O_RDWR, "create");
  }
  std::unique_ptr<File> open_to_write(const std::string& path) override {
    return open(path, O_RDWR, "open for writing");
  }
  std::unique_ptr<File> open_to_read(const std::string& path) override {
    std::unique_ptr<SystemFile> file = open(path, O_RDONLY, "read");
    return file;
  }

  void rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) fail("rename " + from + " to", to, errno);
  }

  void remove(const std::string& path) override {
    if (::unlink(path.c_str()) != 0) fail("remove", path, errno);
  }

  void sync_folder(const std::string& path) override {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) fail("open the folder", path, errno);
    const int error = ::fsync(descriptor) == 0 ? 0 : errno;
    ::close(descriptor);
    // Some file systems make names durable by themselves, and report that with these errors.
    if (error != 0 && error != EINVAL && error != ENOTSUP) fail("write to disk", path, error);
  }

  bool has_folder(const std::string& path) override {
    struct stat found {};
    if (::stat(path.c_str(), &found) != 0) {
      if (errno == ENOENT) return false;
      fail("look at the folder", path, errno);
    }
    if (!S_ISDIR(found.st_mode)) fail("use as a folder", path, ENOTDIR);
    return true;
  }

  void make_folder(const std::string& path) override {
    if (has_folder(path)) return;
    const std::string parent = folder_of(path);
    if (parent != path) make_folder(parent);
    if (::mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) fail("make the folder", path, errno);
    sync_folder(parent);
  }

  std::vector<std::string> list(const std::string& folder) override {
    DIR* const stream = ::opendir(folder.c_str());
    if (stream == nullptr) fail("list", folder, errno);
    std::vector<std::string> names;
    errno = 0;
    // Safe: no other thread uses this stream.
    while (const dirent* entry = ::readdir(stream)) {  // NOLINT(concurrency-mt-unsafe)
      const std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(name);
      errno = 0;
    }
    const int error = errno;
    ::closedir(stream);
    if (error != 0) fail("list", folder, error);
    return names;
  }

 private:
  static std::unique_ptr<SystemFile> open(const std::string& path, int flags, const char* what) {
    int descriptor = -1;
    // A plain open() would block on a named pipe.
    do {
      descriptor = ::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK, 0666);
    } while (descriptor < 0 && errno == EINTR);
    if (descriptor < 0) fail(what, path, errno);
    auto file = std::make_unique<SystemFile>(descriptor, path);
    struct stat found {};
    if (::fstat(descriptor, &found) != 0) fail(what, path, errno);
    if (S_ISDIR(found.st_mode)) fail(what, path, EISDIR);
    if (!S_ISREG(found.st_mode))
      throw FileError("cannot " + std::string(what) + " " + path + ": it is not a regular file");
    return file;
  }
};

}  // namespace

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

FileSystem& system_files() {
  static SystemFiles files;
  return files;
}

}  // namespace kolo::checkpoint
