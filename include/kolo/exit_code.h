// Exit codes of programs that use kolo.
#pragma once

namespace kolo {

// A program that has saved its state and wants to be started again: EX_TEMPFAIL of sysexits.h.
// Batch scripts can test for it.
inline constexpr int kRequeueExitCode = 75;

}  // namespace kolo
