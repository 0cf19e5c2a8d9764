// A small training with all that has a state: dropout, batch normalisation, an optimizer, a
// scheduler, a shuffled sampler. Two of them with the same history have the same bits.
#pragma once

#include <kolo/kolo.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace kolo::testing_support {

struct SmallNetImpl : torch::nn::Module {
  SmallNetImpl() {
    register_module("first", first);
    register_module("norm", norm);
    register_module("drop", drop);
    register_module("last", last);
  }
  torch::Tensor forward(const torch::Tensor& x) { return last(drop(torch::relu(norm(first(x))))); }
  torch::nn::Linear first{6, 16};
  torch::nn::BatchNorm1d norm{16};
  torch::nn::Dropout drop{0.4};
  torch::nn::Linear last{16, 2};
};
TORCH_MODULE(SmallNet);

using Parameters = std::vector<torch::Tensor>;
using MakeOptimizer = std::function<std::unique_ptr<torch::optim::Optimizer>(Parameters)>;

template <class Base, class Options>
MakeOptimizer distributed(Options options) {
  return [options](Parameters parameters) {
    return std::make_unique<DistributedOptimizer<Base>>(std::move(parameters), options);
  };
}

struct Training {
  static constexpr std::int64_t kSamples = 96;

  explicit Training(const MakeOptimizer& make, std::uint64_t seed = 1)
      : net((torch::manual_seed(seed), SmallNet())),
        optimizer(make(net->parameters())),
        scheduler(*optimizer, 1, 0.9),
        sampler(kSamples, {size(), rank()}),
        images(torch::arange(kSamples * 6, torch::kFloat).view({kSamples, 6}).sin()),
        targets(torch::arange(kSamples) % 2) {
    broadcast_parameters(*net);
    torch::manual_seed(100 * seed + static_cast<std::uint64_t>(rank()));
    sampler.set_epoch(0);
  }

  void add_to(Checkpoint& checkpoint) {
    checkpoint.add("model", *net).add("optimizer", *optimizer).add("scheduler", scheduler);
    checkpoint.add("sampler", sampler).add("step", step);
  }

  // One step; at the end of an epoch the scheduler's, too.
  void advance() {
    auto batch = sampler.next(8);
    if (!batch) {
      scheduler.step();
      sampler.reset();
      batch = sampler.next(8);
    }
    std::vector<std::int64_t> indices(batch->begin(), batch->end());
    const torch::Tensor chosen = torch::tensor(indices);
    optimizer->zero_grad();
    const torch::Tensor output = net(images.index_select(0, chosen));
    torch::nn::functional::cross_entropy(output, targets.index_select(0, chosen)).backward();
    optimizer->step();
    ++step;
  }
  void advance(int steps) {
    for (int i = 0; i < steps; ++i) advance();
  }

  // Parameters, buffers of rank 0, and what dropout would do next.
  std::vector<torch::Tensor> bits() const {
    std::vector<torch::Tensor> all;
    for (const auto& parameter : net->parameters()) all.push_back(parameter.detach().clone());
    if (rank() == 0)
      for (const auto& buffer : net->buffers()) all.push_back(buffer.clone());
    all.push_back(at::globalContext().defaultGenerator(at::kCPU).get_state());
    return all;
  }

  SmallNet net;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  torch::optim::StepLR scheduler;
  DistributedSampler sampler;
  torch::Tensor images, targets;
  std::int64_t step = 0;
};

}  // namespace kolo::testing_support
