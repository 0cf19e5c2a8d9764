// Standard input, output and error of kolo's programs: ensures that they are open when a program
// begins, and makes lost output an error when it ends.
#pragma once

#include <string>

namespace kolo {

// The exit code of a command whose output could not be written, in place of 0: EX_IOERR.
inline constexpr int kOutputLostExitCode = 74;

// Opens /dev/null as each of the descriptors 0, 1 and 2 that is closed. Otherwise the next pipe or
// file takes the number, and output goes there. Call first in main(); ends the process with
// kOutputLostExitCode if there is no /dev/null.
void open_standard_streams();

// Flushes standard output. If something could not be written, now or before, reports that on
// standard error, beginning with the command's name, and returns kOutputLostExitCode in place of 0.
// Call last in main().
int flush_standard_output(const std::string& command, int code);

}  // namespace kolo
