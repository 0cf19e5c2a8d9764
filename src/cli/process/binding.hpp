// Which cores each rank of a host is bound to.
#pragma once

#include <vector>

namespace kolo::cli {

struct Core {
  std::vector<int> cpus;  // its hardware threads on which this process may run
  int package = 0;
  int numa_node = 0;
  int id = 0;  // the lowest of all its hardware threads
};

// The cores that hardware threads belong to; neighbours in the list are neighbours in the machine.
std::vector<Core> cores_in_order(const std::vector<int>& cpus);
// Those on which this process may run.
std::vector<Core> usable_cores_in_order();

// The CPUs of the local_rank-th of local_size equal shares, none if there are fewer cores than
// ranks, or a share has fewer than least_cores. Shares begin at multiples of cores / local_size, so
// that they do not cross the border of two packages where the ranks can be divided by the packages.
std::vector<int> share_of_cores(const std::vector<Core>& cores, int local_rank, int local_size,
                                int least_cores);

// Binds this process and its future children. Throws std::system_error.
void bind_to_cpus(const std::vector<int>& cpus);

}  // namespace kolo::cli
