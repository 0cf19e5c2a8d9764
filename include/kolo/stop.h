// Requests to stop: from a batch system before its time limit, an operator, or `kolo run`.
#pragma once

#include <kolo/exit_code.h>

namespace kolo {

// From now on SIGTERM and SIGUSR1 do not end this process, but make stop_requested() true. So
// `kill`, Slurm's --signal=USR1@300 and scancel, and `kolo run`, which passes SIGTERM on as SIGUSR1
// since launchers kill soon after a SIGTERM, all leave time for a checkpoint. May be called again.
// Throws InternalError if the system refuses.
void catch_stop_signals();

// Collective over all ranks: whether a signal has reached at least one of them. The same answer on
// all, so that they save and end together. Call it at the end of a step; it takes as long as an
// allreduce of a byte. PeerLostError.
//
//   if (kolo::stop_requested()) {
//     checkpoint.save(step);
//     checkpoint.wait();
//     kolo::shutdown();
//     return kolo::kRequeueExitCode;
//   }
bool stop_requested();

// Not collective: whether a signal has reached this process.
bool stop_signal_caught();

}  // namespace kolo
