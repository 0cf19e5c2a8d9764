// The parts of kolo-doctor. Each prints lines "kolo-doctor: key=value" and returns an exit code.
#pragma once

#include <string>

namespace kolo::cli {

int probe_cuda();
int probe_torch();
int probe_mpi();  // under mpirun, with two ranks

void report(const std::string& key, const std::string& value);

}  // namespace kolo::cli
