// The `local` backend: ranks are threads of one process and messages are copies. It is what tests
// run on, under the thread sanitizer too, and it can play a lost peer.
#pragma once

#include <memory>
#include <vector>

#include "collectives/transport.hpp"

namespace kolo {

class LocalHub;

// Makes the transports of a group of `size` ranks; each may be moved to a thread of its own.
std::vector<std::unique_ptr<Transport>> make_local_transports(int size);

// For tests: as if the process of `rank` died. Everything that others have under way with it, or
// start, fails with kPeerLost.
void kill_local_rank(Transport& any_of_the_group, int rank);

}  // namespace kolo
