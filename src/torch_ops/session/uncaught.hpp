#pragma once

namespace kolo {

// From now on an exception of kolo that the program does not catch ends the process with its
// message in one line and exit code 1, and not with abort(), for which MPI prints a stack. Other
// exceptions end it as before, and with `with_backtrace` these, too. For the whole process; may be
// called again.
void report_uncaught_errors(bool with_backtrace);

}  // namespace kolo
