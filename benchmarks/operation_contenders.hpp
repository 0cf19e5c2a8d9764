// Who carries out an operation: each contender has tensors of its own, of the same sizes.
#pragma once

#include <memory>

#include "benchmarks/exchange.hpp"
#include "benchmarks/group.hpp"
#include "benchmarks/harness.hpp"

namespace kolo::bench {

// By kolo's synchronous calls. What is not in place allocates its result, which is timed.
std::unique_ptr<Contender> kolo_operation(Group& group, const Exchange& exchange);

// By kolo's calls into preallocated memory; null where kolo has none.
std::unique_ptr<Contender> kolo_into(Group& group, const Exchange& exchange);

// By MPI's calls, into memory that is there before. A group: MPI_Allreduce of one tensor after the
// other.
std::unique_ptr<Contender> mpi_operation(Group& group, const Exchange& exchange);

}  // namespace kolo::bench
