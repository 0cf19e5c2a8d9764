#include "core/standard_streams.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <iostream>
#include <system_error>

namespace kolo {
namespace {

// Some file systems report a full disk only when a descriptor is closed.
bool closes_well(int descriptor) {
  const int copy = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  return copy >= 0 && ::close(copy) == 0;
}

}  // namespace

void open_standard_streams() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) != -1 || errno != EBADF) continue;
    // open() returns the lowest free number, which is this one.
    if (::open("/dev/null", O_RDWR) != descriptor) ::_exit(kOutputLostExitCode);
  }
}

int flush_standard_output(const std::string& command, int code) {
  errno = 0;
  std::cout.flush();
  const bool is_lost = std::fflush(stdout) != 0 || std::ferror(stdout) != 0 || !std::cout ||
                       !closes_well(STDOUT_FILENO);
  if (!is_lost) return code;
  const int error = errno;
  std::cerr << command << ": cannot write to standard output"
            << (error == 0 ? "" : ": " + std::generic_category().message(error))
            << "; the rest of the output is lost\n";
  return code == 0 ? kOutputLostExitCode : code;
}

}  // namespace kolo
