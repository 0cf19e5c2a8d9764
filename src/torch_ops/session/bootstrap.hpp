// Creates a session from a communicator.
#pragma once

#include <memory>

#include "collectives/mpi/runtime.hpp"
#include "core/status.hpp"
#include "torch_ops/session/session.hpp"

namespace kolo {

// Reads the settings, agrees on them with the other ranks, connects the ranks, and creates the
// session. Collective over `parent`. An error on one rank is an error on all. Errors of MPI itself
// have the code kInternal or kPeerLost; the ranks have agreed on all others.
Status start_session(MpiParent parent, std::shared_ptr<Session>& made);

}  // namespace kolo
