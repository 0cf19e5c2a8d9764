// Sockets that other processes connect to.
#pragma once

#include <string>

#include "core/fd.hpp"

namespace kolo {

// Listens on all IPv4 addresses of this host, or only on the loopback address, on a free port.
// Throws std::system_error.
Fd listen_on_network(bool loopback_only, int& port);

// Listens on an abstract Unix socket: a name that only processes of this host (and of its network
// namespace) can reach, and that disappears with its last user. Throws std::system_error.
Fd listen_on_host(const std::string& name);

}  // namespace kolo
