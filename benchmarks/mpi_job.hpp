// MPI_Allreduce in a job of its own, whose malloc keeps what is freed: it cannot be had in
// processes of which other contenders need the stock one, for glibc's settings cannot be taken
// back.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "benchmarks/job.hpp"

namespace kolo::bench {

// The first word of the job's command line, and what then runs: see Job. Its work is
// "allreduce ELEMENTS".
inline constexpr const char* kMpiJob = "mpi-job";
int mpi_job(const std::vector<std::string>& words);

// Collective. The contender mpi-tuned-malloc, and its work.
std::unique_ptr<Job> start_mpi_job(Group& group);
std::string mpi_job_allreduce(std::size_t elements);

// As much as glibc takes, and no block goes back to the kernel.
std::vector<std::string> tuned_malloc();

}  // namespace kolo::bench
