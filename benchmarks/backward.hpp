// A backward pass over a model's parameters, and who reduces its gradients. The loss is the sum of
// each parameter's dot product with an input of this rank, so that the gradients are the inputs:
// they can be checked, and backward() costs what writing all gradients costs, which is the least
// that a model of these parameters could take.
#pragma once

#include <memory>
#include <vector>

#include "benchmarks/group.hpp"
#include "benchmarks/harness.hpp"
#include "benchmarks/models.hpp"

namespace kolo::bench {

// Parameters and inputs, which the contenders share.
class BackwardModel;
std::shared_ptr<BackwardModel> make_backward_model(const std::vector<Parameter>& parameters);

// backward() and synchronize() of a DistributedOptimizer, with kolo's allocator where it is on.
std::unique_ptr<Contender> kolo_backward(const Group& group,
                                         const std::shared_ptr<BackwardModel>& model);

// The rest have LibTorch's stock allocator, which is what a program without kolo has.

// backward() alone.
std::unique_ptr<Contender> no_communication(const Group& group,
                                            const std::shared_ptr<BackwardModel>& model);

// backward(), then MPI_Allreduce of one gradient after the other.
std::unique_ptr<Contender> mpi_after_backward(Group& group,
                                              const std::shared_ptr<BackwardModel>& model);

}  // namespace kolo::bench
