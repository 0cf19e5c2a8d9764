// Being asked to stop: a batch system's time limit, an operator, `kolo run` that was told to end.
#pragma once

namespace kolo {

// What a program ends with that has saved its state and wants to be started again: EX_TEMPFAIL of
// sysexits.h, which batch scripts can test for.
inline constexpr int kRequeueExitCode = 75;

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
