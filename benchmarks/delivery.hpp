// Waits of a training rank for samples that cost more than a training step, whoever loads them.
#pragma once

#include <string>
#include <vector>

#include "benchmarks/group.hpp"
#include "benchmarks/options.hpp"
#include "benchmarks/publish.hpp"

namespace kolo::bench {

// The rows delivery/slept/WORKERS/1 and delivery/computed/WORKERS/1, for a job of one rank: an
// epoch of options.steps steps, in each of which the rank sleeps as if a GPU computed. A batch's
// loading is waiting (slept) or takes CPU time (computed). Contenders: steps, which loads nothing
// and so is the limit; kolo and libtorch, whose loaders have WORKERS threads; delivery, with
// WORKERS loader processes. Collective.
void bench_delivery(Group& group, const Options& options, const Publish& publish);

// The first word of the command line of the job with loader processes, and what then runs: see Job.
// Its work is "epochs".
inline constexpr const char* kDeliveryJob = "delivery-job";
int delivery_job(const std::vector<std::string>& words);

}  // namespace kolo::bench
