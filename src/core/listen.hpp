// Sockets that other processes connect to.
#pragma once

#include <string>

#include "core/fd.hpp"

namespace kolo {

// Listens on all of this host's IPv4 addresses, or on the loopback alone, on a port that is free.
// Throws std::system_error.
Fd listen_on_network(bool loopback_only, int& port);

// Listens on an abstract Unix socket: a name that only processes of this host (and of its network
// namespace) can reach, and that goes with its last user. Throws std::system_error.
Fd listen_on_host(const std::string& name);

}  // namespace kolo
