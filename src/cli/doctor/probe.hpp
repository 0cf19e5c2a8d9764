// The parts of kolo-doctor. Each prints lines "kolo-doctor: key=value" and returns an exit code.
#pragma once

#include <string>
#include <vector>

#include "cli/process/environment.hpp"

namespace kolo::cli {

int probe_library();  // which MPI it is; needs no launcher
int probe_cuda();
int probe_torch();
int probe_mpi();  // under mpirun, with two ranks
// By all ranks of a job: rank 0 prints what each has and what is wrong, and writes it to the file
// `json` ("": none). A rank that is not done in time ends, and says where it was.
int probe_job(double timeout_seconds, const std::string& json);

// The names of the GPUs that this process sees, which differ within a node; from the variable alone
// where there is no driver.
std::vector<std::string> visible_devices(const Lookup& environment);

void report(const std::string& key, const std::string& value);

}  // namespace kolo::cli
