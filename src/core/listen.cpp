#include "core/listen.hpp"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <system_error>

namespace kolo {
namespace {

constexpr int kBacklog = 1024;  // all ranks of a job may connect at once

void check(int value, const char* what) {
  if (value == -1) throw std::system_error(errno, std::generic_category(), what);
}

Fd make_socket(int family) {
  Fd socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  check(socket.get(), "socket");
  return socket;
}

}  // namespace

// NOLINTBEGIN(cppcoreguidelines-pro-type-reinterpret-cast): the socket API's own way

Fd listen_on_network(bool loopback_only, int& port) {
  Fd socket = make_socket(AF_INET);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(loopback_only ? INADDR_LOOPBACK : INADDR_ANY);
  socklen_t size = sizeof address;
  check(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), size), "bind");
  check(::listen(socket.get(), kBacklog), "listen");
  check(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size), "getsockname");
  port = ntohs(address.sin_port);
  return socket;
}

Fd listen_on_host(const std::string& name) {
  Fd socket = make_socket(AF_UNIX);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (name.size() + 1 > sizeof address.sun_path)
    throw std::system_error(ENAMETOOLONG, std::generic_category(), "the socket '" + name + "'");
  std::copy(name.begin(), name.end(), address.sun_path + 1);  // an abstract name begins with zero
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  check(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), size), "bind");
  check(::listen(socket.get(), kBacklog), "listen");
  return socket;
}

// NOLINTEND(cppcoreguidelines-pro-type-reinterpret-cast)

}  // namespace kolo
