#include "benchmarks/json_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

namespace kolo::bench {
namespace {

[[noreturn]] void fail(const std::string& path, const char* what, int error) {
  throw FileError("cannot write " + path + ": " + what + ": " +
                  std::generic_category().message(error));
}

// A file that is removed at the end of the scope unless it was renamed.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& target)
      : target_(target), name_(target + ".tmp." + std::to_string(getpid())) {
    descriptor_ = open(name_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (descriptor_ < 0) fail(target_, "cannot create a file beside it", errno);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (descriptor_ >= 0) close(descriptor_);
    if (!name_.empty()) unlink(name_.c_str());
  }

  void write(const std::string& content) const {
    for (std::size_t at = 0; at < content.size();) {
      const ssize_t written = ::write(descriptor_, content.data() + at, content.size() - at);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail(target_, "writing failed", errno);
      at += static_cast<std::size_t>(written);
    }
    if (fsync(descriptor_) != 0) fail(target_, "writing failed", errno);
  }

  void rename_to_target() {
    if (std::rename(name_.c_str(), target_.c_str()) != 0) fail(target_, "renaming failed", errno);
    name_.clear();
  }

 private:
  const std::string target_;
  std::string name_;
  int descriptor_ = -1;
};

}  // namespace

void check_writable(const std::string& path) {
  struct stat status = {};
  if (stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) fail(path, "a folder", EISDIR);
  const TemporaryFile file(path);
}

void replace_file(const std::string& path, const std::string& content) {
  TemporaryFile file(path);
  file.write(content);
  file.rename_to_target();
}

}  // namespace kolo::bench
