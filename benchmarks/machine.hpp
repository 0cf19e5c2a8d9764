// Where a benchmark ran: the machine, the command, the cores of each rank.
#pragma once

#include <string>
#include <vector>

namespace kolo::bench {

// "CPU model, N cores, Linux RELEASE, MPI library". `cpuinfo` is the text of /proc/cpuinfo;
// `mpi_library` is what MPI_Get_library_version says, which is shortened to name and version.
std::string describe_machine(const std::string& cpuinfo, int cores, const std::string& kernel,
                             const std::string& mpi_library);
// The same of this machine.
std::string describe_this_machine(const std::string& mpi_library);

// The cores that this process may run on, or nothing if these are all of the machine.
std::string bound_cores();
// One text for all ranks of a job from bound_cores() of each.
std::string describe_placement(const std::vector<std::string>& cores_by_rank, int nodes);

// "kolo bench NAME -np RANKS ...", to repeat a run, with the settings of kolo that the environment
// holds ("NAME=VALUE" each) before it. `arguments` are those of kolo-bench.
std::string describe_command(const std::vector<std::string>& environment, int ranks,
                             const std::vector<std::string>& arguments);

// UTC, as 2025-01-31T12:00:00Z.
std::string date_now();

}  // namespace kolo::bench
