// Requests to stop: from a batch system before its time limit, an operator, or `kolo run`.
#pragma once

#include <kolo/exit_code.h>

namespace kolo {

// Installs handlers for SIGTERM and SIGUSR1, which then make stop_requested() true instead of
// ending this process. So `kill`, Slurm's --signal=USR1@300 and scancel, and `kolo run` (which
// passes SIGTERM on as SIGUSR1, because launchers kill soon after a SIGTERM) leave time for a
// checkpoint. May be called again. Throws InternalError if the system refuses.
void catch_stop_signals();

// Returns whether a signal has reached at least one rank. Collective over all ranks; the answer is
// the same on all, so they can save and end together. Call it at the end of a step. It costs an
// allreduce of one byte. Throws PeerLostError.
//
//   if (kolo::stop_requested()) {
//     checkpoint.save(step);
//     checkpoint.wait();
//     kolo::shutdown();
//     return kolo::kRequeueExitCode;
//   }
bool stop_requested();

// Whether a signal has reached this process. Not collective.
bool stop_signal_caught();

}  // namespace kolo
