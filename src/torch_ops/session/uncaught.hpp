#pragma once

namespace kolo {

// Makes an uncaught exception of kolo end the process with its message in one line and exit code 1,
// instead of abort(), for which MPI prints a stack. Other exceptions end it as before; with
// `with_backtrace` so do kolo's. Applies to the whole process. May be called again.
void report_uncaught_errors(bool with_backtrace);

}  // namespace kolo
