// Horovod in a job of its own: horovod_job.py under a Python that has it, built for the same MPI.
// Its ranks are not bound to cores, as horovodrun leaves them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "benchmarks/contenders.hpp"
#include "benchmarks/job.hpp"
#include "benchmarks/models.hpp"

namespace kolo::bench {

// Collective. Why this Python cannot be measured as Horovod; empty if it can. Known on rank 0.
std::string why_no_horovod(Group& group, const std::string& python, bool& possible);

// Collective. The contender horovod, or horovod-yield: there MPI gives its core away while it
// waits.
// `threads`: of each rank's torch.
enum class WhileWaiting { kSpins, kYields };
std::unique_ptr<Job> start_horovod(Group& group, const std::string& python, WhileWaiting what,
                                   int threads);

// Works of such a job: one tensor; tensors as kolo_gradients() reduces them; backward() and
// synchronize() of its DistributedOptimizer on the model of backward.hpp.
std::string horovod_allreduce(const Parameter& tensor);
std::string horovod_gradients(const std::vector<Parameter>& parameters, Order order, Names names);
std::string horovod_backward(const std::vector<Parameter>& parameters);

}  // namespace kolo::bench
