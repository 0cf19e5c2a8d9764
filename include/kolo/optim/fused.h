// LibTorch's SGD, Adam and AdamW, whose steps update all parameters with one call of a kernel, as
// Python's do with fused=True. LibTorch's own classes in C++ go through the parameters one by one.
#pragma once

#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

namespace kolo::optim {

// These classes take torch::optim's options, have the same state, and write the same archives and
// checkpoints, so that a training may switch between the two classes. Results differ from those of
// torch::optim by rounding, and for complex parameters, whose real and imaginary parts are updated
// separately, as in Python.
//
// step() updates, in place, every parameter that has a gradient; the others and their state stay as
// they are. If a closure is given, calls it first, with gradients enabled, and returns its loss.
// Parameters are floating-point or complex, on a CPU or a GPU, in any memory order; one kernel runs
// for each dtype, device and number of steps in a group. Throws InvalidArgumentError for a sparse
// gradient, before anything is updated. One thread at a time; not collective.

// Stochastic gradient descent with momentum; see torch::optim::SGD.
class FusedSGD : public torch::optim::SGD {
 public:
  using torch::optim::SGD::SGD;
  // See above.
  torch::Tensor step(LossClosure closure = nullptr) override;
};

// Kingma and Ba 2015, https://arxiv.org/abs/1412.6980; see torch::optim::Adam.
class FusedAdam : public torch::optim::Adam {
 public:
  using torch::optim::Adam::Adam;
  // See above.
  torch::Tensor step(LossClosure closure = nullptr) override;
};

// Loshchilov and Hutter 2019, https://arxiv.org/abs/1711.05101; see torch::optim::AdamW.
class FusedAdamW : public torch::optim::AdamW {
 public:
  using torch::optim::AdamW::AdamW;
  // See above.
  torch::Tensor step(LossClosure closure = nullptr) override;
};

}  // namespace kolo::optim
