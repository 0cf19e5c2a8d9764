#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "collectives/mpi/runtime.hpp"

namespace kolo {
namespace {

// torchrun's default, used if no free port can be found.
constexpr int kUsualPort = 29500;

int free_port() {
  const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return kUsualPort;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  const bool found =
      bind(descriptor, generic, length) == 0 && getsockname(descriptor, generic, &length) == 0;
  close(descriptor);
  return found ? ntohs(address.sin_port) : kUsualPort;
}

}  // namespace

std::string rendezvous_address(bool all_on_this_host) {
  char host[256] = "localhost";
  if (gethostname(host, sizeof host - 1) != 0) all_on_this_host = true;
  return (all_on_this_host ? std::string("127.0.0.1") : std::string(host)) + " " +
         std::to_string(free_port());
}

}  // namespace kolo
