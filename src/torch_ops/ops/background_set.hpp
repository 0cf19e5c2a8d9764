#pragma once

#include "kolo/process_set.h"
#include "torch_ops/session/session.hpp"

namespace kolo {

// Returns the session's process set of all ranks for operations of kolo's own threads, which so do
// not mix with the program's. The first call is collective.
ProcessSet background_set(Session& session);

}  // namespace kolo
