// The probes of kolo-doctor. Each prints lines "kolo-doctor: key=value" and returns an exit code.
#pragma once

#include <string>
#include <vector>

#include "cli/process/environment.hpp"

namespace kolo::cli {

int probe_library();  // reports which MPI it is; needs no launcher
int probe_cuda();
int probe_torch();
int probe_mpi();  // runs under mpirun, with two ranks
// Runs on all ranks of a job. Rank 0 prints each rank's resources and the problems, and writes them
// to the file `json` ("": no file). A rank that is not done in time reports where it was, and ends.
int probe_job(double timeout_seconds, const std::string& json);

// Returns the names of the GPUs that this process sees; they are unique within a node. Without a
// driver, takes them from the variable.
std::vector<std::string> visible_devices(const Lookup& environment);

void report(const std::string& key, const std::string& value);

}  // namespace kolo::cli
