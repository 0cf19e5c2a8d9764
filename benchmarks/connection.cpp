#include "benchmarks/connection.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <stdexcept>

#include "cli/process/system.hpp"

namespace kolo::bench {

Connection::Connection(const std::string& address)
    : socket_(cli::check(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket")) {
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  address.copy(at.sun_path + 1, sizeof at.sun_path - 2);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + address.size());
  cli::check(::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&at), length), "connect");
}

std::string Connection::read_line() {
  std::string line;
  for (char byte = 0;;) {
    const ssize_t count = ::read(socket_.get(), &byte, 1);
    if (count == -1 && errno == EINTR) continue;
    if (count != 1) return "end";
    if (byte == '\n') return line;
    line += byte;
  }
}

void Connection::answer(const std::string& line) const {
  const std::string text = line + "\n";
  const ssize_t sent = ::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(text.size())) throw std::runtime_error("the answer is lost");
}

}  // namespace kolo::bench
