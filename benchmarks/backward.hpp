// A backward pass over a model's parameters, and who reduces its gradients. The loss is half the
// square of (parameter + input), summed over all elements; the parameters are zero, so the
// gradients are this rank's inputs and can be checked. backward() makes three tensors of each
// parameter's size on its way to the gradient.
#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <utility>
#include <vector>

#include "benchmarks/group.hpp"
#include "benchmarks/harness.hpp"
#include "benchmarks/models.hpp"

namespace kolo::bench {

// Parameters and inputs, which the contenders share.
class BackwardModel;
std::shared_ptr<BackwardModel> make_backward_model(const std::vector<Parameter>& parameters,
                                                   at::Device device = at::kCPU);

// backward() and synchronize() of a DistributedOptimizer, with kolo's allocator where it is on.
std::unique_ptr<Contender> kolo_backward(const Group& group,
                                         const std::shared_ptr<BackwardModel>& model);
// The same with gradients sent as float16: by kolo's own compression, or by the same one written as
// a program would, with a GradientCompressor. `first` and `second` of the pair.
std::pair<std::unique_ptr<Contender>, std::unique_ptr<Contender>> float16_backward(
    const Group& group, const std::shared_ptr<BackwardModel>& model);

// The rest have LibTorch's stock allocator, which is what a program without kolo has.

// backward() alone.
std::unique_ptr<Contender> no_communication(const Group& group,
                                            const std::shared_ptr<BackwardModel>& model);

// backward(), then MPI_Allreduce of one gradient after the other.
std::unique_ptr<Contender> mpi_after_backward(Group& group,
                                              const std::shared_ptr<BackwardModel>& model);

// backward(), during which LibTorch's own reducer calls MPI_Allreduce. Nothing where this LibTorch
// has none.
std::unique_ptr<Contender> reducer_during_backward(const Group& group,
                                                   const std::shared_ptr<BackwardModel>& model);

// On a GPU: backward() and a step of SGD, until the host may go on, or until the device has done
// all.
enum class Until { kHostIsFree, kDeviceIsDone };
std::unique_ptr<Contender> kolo_step(const Group& group,
                                     const std::shared_ptr<BackwardModel>& model, Until until);
std::unique_ptr<Contender> plain_step(const Group& group,
                                      const std::shared_ptr<BackwardModel>& model, Until until);

}  // namespace kolo::bench
