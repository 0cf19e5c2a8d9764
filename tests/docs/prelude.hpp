// Declares what the code on the pages assumes, and the list of its blocks.
#pragma once

#include <kolo/kolo.h>
#include <torch/torch.h>

#include <cstdint>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

struct NetImpl : torch::nn::Module {
  NetImpl() { register_module("conv1", conv1); }
  torch::Tensor forward(const torch::Tensor& input) {
    return torch::log_softmax(conv1(input).mean({2, 3}), 1);
  }
  torch::nn::Conv2d conv1{torch::nn::Conv2dOptions(1, 3, 3)};
};
TORCH_MODULE(Net);

// Images of three classes, darker and lighter.
struct Images : torch::data::datasets::Dataset<Images> {
  torch::data::Example<> get(std::size_t index) override {
    const auto target = static_cast<std::int64_t>(index % 3);
    return {torch::full({1, 6, 6}, static_cast<double>(target) - 1.0), torch::tensor(target)};
  }
  torch::optional<std::size_t> size() const override { return 300; }
};

// The state of a program at the point where a page's block begins.
struct Page {
  static constexpr std::size_t size = 300;
  static constexpr std::int64_t steps = 5;

  void train(std::int64_t /*epoch*/) {
    optimizer.zero_grad();
    torch::nll_loss(net(batch.data), batch.target).backward();
    optimizer.step();
  }

  decltype(Images().map(torch::data::transforms::Stack<>())) dataset =
      Images().map(torch::data::transforms::Stack<>());
  torch::data::Example<> batch{torch::rand({4, 1, 6, 6}),
                               torch::zeros({4}, torch::TensorOptions(torch::kLong))};
  Net net;
  kolo::DistributedOptimizer<torch::optim::SGD> optimizer{net, torch::optim::SGDOptions(0.1)};
  torch::optim::StepLR scheduler{optimizer, 1, 0.9};
  kolo::DistributedSampler sampler{size, {kolo::size(), kolo::rank()}};
  kolo::Checkpoint checkpoint{"runs/page"};
  std::int64_t epoch = 0;
  std::int64_t step = 1;
  torch::Tensor loss = torch::tensor(0.5);
  std::string text = "settings";
};

// A block of a page.
struct Block {
  const char* where;  // "gpu.md:25"
  std::function<int()> run;
};

extern const std::vector<Block> kBlocks;
