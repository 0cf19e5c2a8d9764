// Exit codes of programs that use kolo.
#pragma once

namespace kolo {

// Exit code of a program that has saved its state and should be started again: EX_TEMPFAIL of
// sysexits.h. Batch scripts can test for it.
inline constexpr int kRequeueExitCode = 75;

}  // namespace kolo
