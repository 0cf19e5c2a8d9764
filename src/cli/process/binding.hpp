// Chooses the cores to which each rank of a host is bound.
#pragma once

#include <vector>

namespace kolo::cli {

struct Core {
  std::vector<int> cpus;  // its hardware threads on which this process may run
  int package = 0;
  int numa_node = 0;
  int id = 0;  // the lowest of all its hardware threads
};

// Returns the cores of the hardware threads. Neighbours in the list are neighbours in the machine.
std::vector<Core> cores_in_order(const std::vector<int>& cpus);
// Returns the cores on which this process may run.
std::vector<Core> usable_cores_in_order();

// Returns the CPUs of the local_rank-th of local_size equal shares. Returns none if there are fewer
// cores than ranks, or if a share has fewer than least_cores. Shares begin at multiples of cores /
// local_size, so they do not cross the border between packages if the ranks can be divided by the
// packages.
std::vector<int> share_of_cores(const std::vector<Core>& cores, int local_rank, int local_size,
                                int least_cores);

// Binds this process and its future children. Throws std::system_error.
void bind_to_cpus(const std::vector<int>& cpus);

}  // namespace kolo::cli
