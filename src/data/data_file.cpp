#include "data/data_file.hpp"

#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <utility>

#include "data/data_error.hpp"

namespace kolo::data {

DataFile::DataFile(std::string path) : path_(std::move(path)) {
  // Without O_NONBLOCK, opening a named pipe would block until it has a writer.
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) fail_system(path_, "cannot be opened", errno);
  try {
    at_first_ = facts();
    if (S_ISDIR(at_first_.st_mode)) fail(path_, "is a folder", "give the path of a file in it");
    if (!S_ISREG(at_first_.st_mode))
      fail(path_, "is not a regular file", "copy its content to a file and give that");
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

DataFile::~DataFile() {
  ::close(descriptor_);
}

struct stat DataFile::facts() const {
  struct stat now {};
  if (::fstat(descriptor_, &now) != 0) fail_system(path_, "cannot be inspected", errno);
  return now;
}

void DataFile::require_unchanged() const {
  const struct stat now = facts();
  const bool is_same = now.st_size == at_first_.st_size && now.st_nlink > 0 &&
                       now.st_mtim.tv_sec == at_first_.st_mtim.tv_sec &&
                       now.st_mtim.tv_nsec == at_first_.st_mtim.tv_nsec;
  if (!is_same) {
    fail(path_, "was changed or removed while it was read",
         "let the program that writes it end first, and start again");
  }
}

void DataFile::read(std::uint64_t offset, std::vector<iovec>& parts) const {
  std::size_t first = 0;
  while (first < parts.size()) {
    if (parts[first].iov_len == 0) {
      ++first;
      continue;
    }
    const auto count = static_cast<int>(std::min<std::size_t>(parts.size() - first, IOV_MAX));
    const ssize_t got =
        ::preadv(descriptor_, parts.data() + first, count, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_system(path_, "cannot be read", errno);
    if (got == 0) fail(path_, "ends before its data do", kGetAgain);
    offset += static_cast<std::uint64_t>(got);
    auto left = static_cast<std::size_t>(got);
    for (; left > 0; ++first) {
      iovec& part = parts[first];
      const std::size_t taken = std::min(left, part.iov_len);
      part.iov_base = static_cast<std::uint8_t*>(part.iov_base) + taken;
      part.iov_len -= taken;
      left -= taken;
      if (part.iov_len > 0) break;
    }
  }
}

}  // namespace kolo::data
