// The `local` backend: ranks are threads of one process and messages are copies. Tests run on it,
// also under the thread sanitizer. It can simulate a lost peer.
#pragma once

#include <memory>
#include <vector>

#include "collectives/transport.hpp"

namespace kolo {

class LocalHub;

// Makes the transports of a group of `size` ranks; each may be moved to a thread of its own.
std::vector<std::unique_ptr<Transport>> make_local_transports(int size);

// Makes the process of `rank` look dead, for tests. Everything that others have in flight with it,
// or start, fails with kPeerLost.
void kill_local_rank(Transport& any_of_the_group, int rank);

}  // namespace kolo
